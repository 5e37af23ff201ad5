"""Celery: the app, the publisher, the worker and the child that runs user code."""
