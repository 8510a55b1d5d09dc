"""ImageDecoder: decodes image files to pixels with pillow (the extra ``images``)."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from ortpkg.foundations.errors import MissingExtraError, quoted
from ortpkg.foundations.isolation.polling import run_interruptibly
from ortpkg.runtime.kernels.kernel_registry import kernel
from ortpkg.runtime.kernels.op_kernel import Compute, OpKernelContext, OpKernelInfo, Tensor

if TYPE_CHECKING:
    from PIL.Image import Image

#: pillow's names of the formats that the operator allows; it opens no other.
_FORMATS = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")
#: Pixel format → pillow's mode.
_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}
#: Bytes that pillow holds of a pixel besides the output: as it was read, in the wanted mode, and as
#: it is passed on.
_HELD_NBYTES = 12
#: Most copies of a file, or of parts of it, that pillow holds at once: the file itself, the bytes
#: that were read, those joined, and texts and profiles of its head in several forms.
_FILE_COPIES = 6
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: Chunks that no pixel depends on; pillow inflates them, up to 64 Mi characters.
_PNG_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
#: Length, type and checksum around the data of a chunk.
_PNG_FRAME_NBYTES = 12
#: Offset of the type of WebP's first chunk in a file.
_WEBP_HEAD_NBYTES = 30


@kernel("ImageDecoder", since=(20,))
def image_decoder(info: OpKernelInfo) -> Compute:
    """Pixels (height, width, channels) with 3 channels, or 1 for Grayscale, without transparency.

    The memory of copies of the file, and of the size in its header, is checked before a pixel is
    read.
    """
    pixel_format = str(info.attribute("pixel_format", "RGB"))
    if pixel_format not in _MODES:
        raise ValueError(
            f"there is no pixel format {quoted(pixel_format)}: {', '.join(_MODES)} exist"
        )

    def compute(context: OpKernelContext, encoded: Tensor) -> Tensor:
        file_nbytes = encoded.nbytes * _FILE_COPIES
        context.check_allocation(file_nbytes)
        content = _without_texts(encoded.tobytes())
        if (size := _webp_size(content)) is not None:  # pillow allocates it as it opens the file
            context.check_allocation(size[0] * size[1] * _HELD_NBYTES + file_nbytes)
        image = _opened(content)
        width, height = image.size
        mode = _MODES[pixel_format]
        out = context.output(0, (height, width, len(mode)), np.dtype(np.uint8))
        context.check_allocation(width * height * _HELD_NBYTES + file_nbytes)
        pixels = run_interruptibly(context, lambda: _pixels(image, mode))
        np.copyto(out, pixels[..., ::-1] if pixel_format == "BGR" else pixels.reshape(out.shape))
        return out

    return compute


def _opened(content: bytes) -> Image:
    """Open an image and read its header."""
    try:
        import PIL.Image  # an extra, and only for this operator
    except ImportError as error:
        raise MissingExtraError("the operator ImageDecoder", "pillow", error) from error
    try:
        return PIL.Image.open(io.BytesIO(content), formats=_FORMATS)
    except (OSError, PIL.Image.DecompressionBombError) as error:
        raise ValueError(f"it is no image that can be decoded: {quoted(str(error))}") from error


def _pixels(image: Image, mode: str) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(image if image.mode == mode else image.convert(mode))
    except (OSError, SyntaxError) as error:  # the latter of damaged PNG chunks
        raise ValueError(f"the image is damaged: {quoted(str(error))}") from error


def _without_texts(content: bytes) -> bytes:
    """Return a PNG file without its texts (PNG specification, section 5.3), others as they are."""
    if not content.startswith(_PNG_SIGNATURE) or not any(name in content for name in _PNG_TEXTS):
        return content
    parts, start = [_PNG_SIGNATURE], len(_PNG_SIGNATURE)
    while start < len(content):
        data_nbytes = int.from_bytes(content[start : start + 4], "big")
        end = start + data_nbytes + _PNG_FRAME_NBYTES
        if content[start + 4 : start + 8] not in _PNG_TEXTS:
            parts.append(content[start:end])
        start = end
    return b"".join(parts)


def _webp_size(content: bytes) -> tuple[int, int] | None:
    """Return (width, height) from a WebP header; None for other files (RFC 9649, section 2)."""
    head = content[:_WEBP_HEAD_NBYTES]
    if len(head) < _WEBP_HEAD_NBYTES or head[:4] != b"RIFF" or head[8:12] != b"WEBP":
        return None
    if head[12:16] == b"VP8X":
        return 1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little")
    bits = int.from_bytes(head[21:25] if head[12:16] == b"VP8L" else head[26:30], "little")
    if head[12:16] == b"VP8L":
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return bits & 0x3FFF, bits >> 16 & 0x3FFF
