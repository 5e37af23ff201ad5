"""Notifications by mail, Slack, Teams, webhook and a hundred other ways, through the library Apprise."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from turnout.config.errors import TurnoutError
from turnout.tasks.context import Context
from turnout.tasks.masking import mask_secret
from turnout.tasks.notifier import BaseNotifier

if TYPE_CHECKING:
    from apprise import Apprise


class NotificationError(TurnoutError):
    """A notification could not be delivered."""


class AppriseNotifier(BaseNotifier):
    """A callback that notifies through Apprise: `mailto://…`, `slack://…`, `msteams://…`, `json://…`.

    URLs are masked in logs as a whole, since most of them hold a token. All arguments but `attach` are templates.

    Args:
        urls: one Apprise URL, or several.
        body: the message.
        title: its title.
        notify_type: `info`, `success`, `warning` or `failure`.
        body_format: `text`, `markdown` or `html`.
        attach: files, or URLs of files, to attach.
    """

    template_fields: ClassVar[Sequence[str]] = ("urls", "body", "title", "notify_type", "body_format")

    def __init__(
        self,
        *,
        urls: str | Sequence[str],
        body: str,
        title: str = "",
        notify_type: str = "info",
        body_format: str = "text",
        attach: str | Sequence[str] | None = None,
    ) -> None:
        self.urls = [urls] if isinstance(urls, str) else list(urls)
        self.body = body
        self.title = title
        self.notify_type = notify_type
        self.body_format = body_format
        self.attach = attach

    def notify(self, context: Context) -> None:  # noqa: ARG002  the templates have used it
        """Deliver the notification to every URL.

        Raises:
            NotificationError: Apprise is not installed, does not understand a URL, or could not deliver it to all.
        """
        mask_secret([secret for url in self.urls for secret in _secrets(url)])
        extra: dict[str, Any] = {} if self.attach is None else {"attach": self.attach}
        message = {"title": self.title, "notify_type": self.notify_type, "body_format": self.body_format, **extra}
        services = _services(self.urls)
        failed = [url for url, service in services.items() if not service.notify(body=self.body, **message)]
        if failed:
            names = ", ".join(f"{_kind(url)} (URL {self.urls.index(url) + 1} of {len(self.urls)})" for url in failed)
            raise NotificationError(f"Apprise could not deliver to {names}; its own words are in the log.")


def _secrets(url: str) -> list[str]:
    """Name what of a URL may be a secret, together and by itself, since libraries quote either."""
    parts = urlsplit(url)
    return [part for part in (url, parts.password, parts.path.strip("/"), parts.query) if part]


def _kind(url: str) -> str:
    return f"{url.partition('://')[0]}://…"


def _services(urls: Sequence[str]) -> "dict[str, Apprise]":
    try:
        from apprise import Apprise  # noqa: PLC0415  an extra, and slow to load
    except ModuleNotFoundError as error:
        raise NotificationError("Apprise is not installed: pip install 'turnout[notify]'.") from error
    services = {url: Apprise() for url in urls}
    for number, (url, service) in enumerate(services.items(), start=1):
        if not service.add(url):
            raise NotificationError(f"Apprise does not understand URL {number} of {len(urls)} ({_kind(url)}).")
    return services
