"""Videos of episodes."""

from typing import Any

from tfagents_batch.errors import UserError


def ffmpeg() -> Any:
    """Return the module that writes MP4 files.

    Raises:
      UserError: if the extra ``video`` is missing.
    """
    try:
        import imageio_ffmpeg
    except ImportError:
        raise UserError(
            'MP4 videos need imageio_ffmpeg: pip install "tfagents_batch[video]", or '
            'pass format="gif" (flag --format=gif)'
        ) from None
    return imageio_ffmpeg
