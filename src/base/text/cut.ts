// Texts in replies, metadata and logs are cut to a limit, because callers choose how long they are.

/** Bytes of UTF-8 of a shown label value, mark included. */
export const MAX_SHOWN_BYTES = 1_024;

/** Ends a text that was cut. */
export const CUT_MARK = "…";

const MARK_BYTES = Buffer.byteLength(CUT_MARK);
/** UTF-16 units that always fit. */
const SURELY_SHORT = Math.floor(MAX_SHOWN_BYTES / 3);

/** The text, or its beginning and the mark, with at most `max` bytes. */
export function cutText(text: string, max = MAX_SHOWN_BYTES): string {
  if (text.length <= SURELY_SHORT && max === MAX_SHOWN_BYTES) return text;
  if (text.length <= max && Buffer.byteLength(text) <= max) return text;
  // A character has at least one byte, so the part suffices.
  const bytes = Buffer.from(text.slice(0, max));
  return bytes.toString("utf8", 0, characterStart(bytes, max - MARK_BYTES)) + CUT_MARK;
}

/** The last offset up to `at` where a character of a UTF-8 text begins. */
function characterStart(bytes: Uint8Array, at: number): number {
  let start = Math.max(0, at);
  while (start > 0 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start--;
  return start;
}
