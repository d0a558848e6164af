// Encodes the DER elements (X.690) of certificates.

const SEQUENCE = 0x30;
const SET = 0x31;

/** One element: tag, length and content. */
export function element(tag: number, ...content: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(content);
  return Buffer.concat([Buffer.from([tag]), lengthOf(body.length), body]);
}

export function sequence(...content: readonly Uint8Array[]): Buffer {
  return element(SEQUENCE, ...content);
}

export function setOf(...content: readonly Uint8Array[]): Buffer {
  return element(SET, ...content);
}

/** Context-specific and constructed: `[number]` of ASN.1. */
export function tagged(number: number, ...content: readonly Uint8Array[]): Buffer {
  return element(0xa0 | number, ...content);
}

/** A positive integer from its bytes, the most significant first. */
export function integer(bytes: Uint8Array): Buffer {
  let start = 0;
  while (start < bytes.length - 1 && bytes[start] === 0) start++;
  const digits = bytes.subarray(start);
  const isNegative = ((digits[0] ?? 0) & 0x80) !== 0;
  return element(0x02, isNegative ? Buffer.from([0]) : Buffer.alloc(0), digits);
}

export function boolean(value: boolean): Buffer {
  return element(0x01, Buffer.from([value ? 0xff : 0]));
}

export function octets(content: Uint8Array): Buffer {
  return element(0x04, content);
}

/** `unused` is the number of bits at the end that do not count. */
export function bits(content: Uint8Array, unused = 0): Buffer {
  return element(0x03, Buffer.from([unused]), content);
}

export function utf8(text: string): Buffer {
  return element(0x0c, Buffer.from(text, "utf8"));
}

/** An object identifier such as `2.5.4.3`. */
export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  return element(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

/** UTCTime until 2049, GeneralizedTime from 2050 on (RFC 5280 §4.1.2.5). `ms` is Unix time; fractions are cut. */
export function time(ms: number): Buffer {
  const digits = `${new Date(ms).toISOString().slice(0, 19).replaceAll(/[-:T]/g, "")}Z`;
  const year = Number(digits.slice(0, 4));
  return year < 2050
    ? element(0x17, Buffer.from(digits.slice(2)))
    : element(0x18, Buffer.from(digits));
}

function lengthOf(length: number): Buffer {
  if (length < 0x80) return Buffer.from([length]);
  const bytes: number[] = [];
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return Buffer.from([0x80 | bytes.length, ...bytes]);
}

function base128(value: number): readonly number[] {
  const bytes = [value % 128];
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128)) {
    bytes.unshift(0x80 | (rest % 128));
  }
  return bytes;
}
