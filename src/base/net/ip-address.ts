// IP addresses in text, and their one spelling: IPv4 in dotted decimal, IPv6 as in RFC 5952. Addresses are compared and
// used as keys, so two spellings of one address must become the same text.

/** The bytes of an address: 4 of IPv4, 16 of IPv6. */
type Address = readonly number[];

const IPV4_PART = /^(?:0|[1-9]\d{0,2})$/;
const IPV6_PART = /^[0-9A-Fa-f]{1,4}$/;
/** The first twelve bytes of an IPv6 address that stands for an IPv4 address (RFC 4291 §2.5.5.2). */
const MAPPED: Address = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/**
 * The one spelling of an IP address: lower case, the longest run of zeros shortened, no brackets, no zone. An IPv6
 * address that stands for an IPv4 address (`::ffff:192.0.2.1`) becomes that one. Other text is returned unchanged.
 */
export function canonicalAddress(text: string): string {
  // An IPv4 address has one spelling. Each check with service discovery comes here several times.
  if (!text.includes(":")) return text;
  const address = parseAddress(text);
  return address === undefined ? text : format(address);
}

/** Whether an address belongs to the loopback interface, however it is spelled. */
export function isLoopback(address: string): boolean {
  const canonical = canonicalAddress(address);
  return canonical === "::1" || canonical.startsWith("127.");
}

/**
 * The first address of the network that an address is in, whose prefix has `bits4` or `bits6` bits: 192.0.2.77 with 24
 * bits gives 192.0.2.0. Other text is returned unchanged.
 */
export function networkOf(text: string, bits4: number, bits6: number): string {
  const address = parseAddress(text);
  if (address === undefined) return text;
  const bits = address.length === 4 ? bits4 : bits6;
  return format(address.map((byte, at) => byte & maskOf(bits - 8 * at)));
}

/** Mask of a byte of which the first `bits` bits are kept. */
function maskOf(bits: number): number {
  if (bits >= 8) return 0xff;
  return bits <= 0 ? 0 : (0xff << (8 - bits)) & 0xff;
}

function parseAddress(text: string): Address | undefined {
  if (!text.includes(":")) return parseIpv4(text);
  const inner = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text;
  const zone = inner.indexOf("%");
  const address = parseIpv6(zone < 0 ? inner : inner.slice(0, zone));
  const mapped = address !== undefined && MAPPED.every((byte, at) => address[at] === byte);
  return mapped ? address.slice(MAPPED.length) : address;
}

function parseIpv4(text: string): Address | undefined {
  const parts = text.split(".", 5);
  const good = parts.length === 4 && parts.every((part) => IPV4_PART.test(part));
  const bytes = good ? parts.map(Number) : [];
  return good && bytes.every((byte) => byte <= 0xff) ? bytes : undefined;
}

function parseIpv6(text: string): Address | undefined {
  const halves = text.split("::", 3);
  const [head, tail] = halves.map((half) => (half === "" ? [] : half.split(":", 9)));
  if (head === undefined || halves.length > 2) return undefined;
  const front = bytesOf(head, tail === undefined);
  const back = bytesOf(tail ?? [], true);
  if (front === undefined || back === undefined) return undefined;
  if (tail === undefined) return front.length === 16 ? front : undefined;
  const zeros = 16 - front.length - back.length;
  // `::` stands for at least one group.
  return zeros < 2 ? undefined : [...front, ...new Array<number>(zeros).fill(0), ...back];
}

/** The bytes of colon-separated groups. The last one may be an IPv4 address if the address ends with it. */
function bytesOf(groups: readonly string[], ends: boolean): Address | undefined {
  const bytes: number[] = [];
  for (const [at, group] of groups.entries()) {
    const inner = ends && at === groups.length - 1 ? parseIpv4(group) : undefined;
    if (inner !== undefined) bytes.push(...inner);
    else if (!IPV6_PART.test(group)) return undefined;
    else {
      const value = Number.parseInt(group, 16);
      bytes.push(value >> 8, value & 0xff);
    }
  }
  return bytes;
}

function format(address: Address): string {
  if (address.length === 4) return address.join(".");
  const groups: number[] = [];
  for (let at = 0; at < 16; at += 2) {
    groups.push(((address[at] ?? 0) << 8) | (address[at + 1] ?? 0));
  }
  const { start, length } = longestZeros(groups);
  const texts = groups.map((group) => group.toString(16));
  // A single group of zeros is written out (RFC 5952 §4.2.2).
  if (length < 2) return texts.join(":");
  return `${texts.slice(0, start).join(":")}::${texts.slice(start + length).join(":")}`;
}

/** The first of the longest runs of zeros. */
function longestZeros(groups: readonly number[]): { start: number; length: number } {
  let best = { start: 0, length: 0 };
  let length = 0;
  for (const [at, group] of groups.entries()) {
    length = group === 0 ? length + 1 : 0;
    if (length > best.length) best = { start: at - length + 1, length };
  }
  return best;
}
