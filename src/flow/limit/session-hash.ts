// FNV-1a, 32 bits, over UTF-8: all agents pick the same sessions by this hash, so it has no seed. Unsuitable for
// tables, because anyone can find texts that collide.

const BASIS = 2166136261;
const PRIME = 16777619;
/** Code point that UTF-8 encoders write for a lone surrogate. */
const REPLACEMENT = 0xfffd;

export function fnv1a(text: string): number {
  let hash = BASIS;
  for (let at = 0; at < text.length; at++) {
    let code = text.charCodeAt(at);
    if (code < 0x80) {
      hash = Math.imul(hash ^ code, PRIME);
      continue;
    }
    if (code >= 0xd800 && code <= 0xdfff) {
      const whole = text.codePointAt(at) ?? REPLACEMENT;
      if (whole > 0xffff) at++;
      code = whole > 0xffff ? whole : REPLACEMENT;
    }
    const tail = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    const lead = tail === 1 ? 0xc0 : tail === 2 ? 0xe0 : 0xf0;
    hash = Math.imul(hash ^ (lead | (code >>> (6 * tail))), PRIME);
    for (let rest = tail - 1; rest >= 0; rest--) {
      hash = Math.imul(hash ^ (0x80 | ((code >>> (6 * rest)) & 0x3f)), PRIME);
    }
  }
  return hash >>> 0;
}

/**
 * The same, with the bits mixed once more (the finalizer of MurmurHash3). FNV-1a alone leaves the high bits of short
 * texts nearly equal, so that consecutive numbers pass or fail in runs.
 */
export function mixedHash(text: string): number {
  let hash = fnv1a(text);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
