"""Celery: the app, the publisher, the worker, the child that runs user code, and the logs of attempts."""
