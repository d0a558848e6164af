// Validates the host that a request names (`host`, `:authority`), by the same rule in every version of HTTP.

const SPACE = 0x20;
const AT = 0x40;
const DELETE = 0x7f;
const LAST_BYTE = 0xff;

/**
 * True if the text may be a host: it has no blanks, control characters or user information. It may be empty, as callers
 * over Unix sockets send it. Nothing else is required, since service meshes use names with bars and slashes.
 */
export function isHost(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code <= SPACE || code === AT || code === DELETE || code > LAST_BYTE) return false;
  }
  return true;
}
