"""The application that Flower loads: `celery -A turnout.executor.flower_app flower`."""

from turnout.config.settings import load_settings
from turnout.executor.app import make_app

app = make_app(load_settings())
