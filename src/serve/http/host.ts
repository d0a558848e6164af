// What a host header may be: a name or an address, and a port (RFC 9110 §7.2). Looked at for each request, so by its
// characters.

const COLON = 0x3a;
/** Beside letters and digits (RFC 3986 §2.3, §2.2), and the percent sign of what is encoded. */
const OF_NAMES = "-._~!$&'()*+,;=%";

/** Empty is good, too: who has no name for us says so. */
export function isHost(value: string): boolean {
  let at = value.startsWith("[") ? behindAddress(value) : behindName(value);
  if (at === value.length) return true;
  if (value.charCodeAt(at) !== COLON) return false;
  for (at++; at < value.length; at++) if (!isDigit(value.charCodeAt(at))) return false;
  return true;
}

function behindName(value: string): number {
  let at = 0;
  for (; at < value.length; at++) {
    const code = value.charCodeAt(at);
    if (!isLetter(code) && !isDigit(code) && !OF_NAMES.includes(value.charAt(at))) break;
  }
  return at;
}

/** Behind an address of IPv6 in brackets; -1 where that is none. */
function behindAddress(value: string): number {
  const end = value.indexOf("]");
  if (end < 2) return -1;
  for (let at = 1; at < end; at++) {
    const code = value.charCodeAt(at);
    if (!isDigit(code) && !isHexLetter(code) && code !== COLON && value.charAt(at) !== ".")
      return -1;
  }
  return end + 1;
}

function isLetter(code: number): boolean {
  const letter = code | 0x20;
  return letter >= 0x61 && letter <= 0x7a;
}

function isHexLetter(code: number): boolean {
  const letter = code | 0x20;
  return letter >= 0x61 && letter <= 0x66;
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}
