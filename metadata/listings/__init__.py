"""What people read: pages of DAGs, runs, task instances, processes and queues, under the names of the public REST API.

The fields of these rows are the keys of the JSON that the command line prints and the server answers with. No loop of a
scheduler or worker reads through here.
"""
