// IP addresses in text, and their canonical form: IPv4 in dotted decimal, IPv6 as in RFC 5952. Addresses are compared and
// used as keys, so all spellings of one address must become the same text.

const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!$)|$)){4}$/;
const IPV6_CHARACTERS = /^[0-9A-Fa-f:.]+$/;
/** The canonical form of an IPv6 address that stands for an IPv4 address (RFC 4291 §2.5.5.2). */
const MAPPED = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

/**
 * The canonical form of an IP address: lower case, the longest run of zeros shortened, no brackets, no zone. An IPv6
 * address that stands for an IPv4 address (`::ffff:192.0.2.1`) becomes that one. Other text is returned unchanged.
 */
export function canonicalAddress(text: string): string {
  // An IPv4 address has one spelling. Each check with service discovery comes here several times.
  return text.includes(":") ? (canonicalColonForm(text) ?? text) : text;
}

/** True if an address belongs to the loopback interface, however it is spelled. */
export function isLoopback(address: string): boolean {
  const canonical = canonicalAddress(address);
  return canonical === "::1" || canonical.startsWith("127.");
}

/**
 * The first address of the network that an address is in, whose prefix has `bits4` or `bits6` bits: 192.0.2.77 with 24
 * bits gives 192.0.2.0. Other text is returned unchanged.
 */
export function networkOf(text: string, bits4: number, bits6: number): string {
  const address = text.includes(":") ? canonicalColonForm(text) : text;
  if (address === undefined) return text;
  if (IPV4.test(address)) {
    if (bits4 >= 32) return address;
    return address
      .split(".")
      .map((byte, at) => Number(byte) & maskOf(8, bits4 - 8 * at))
      .join(".");
  }
  if (!address.includes(":")) return text;
  const groups = groupsOf(address).map((group, at) => group & maskOf(16, bits6 - 16 * at));
  return canonicalIpv6(groups.map((group) => group.toString(16)).join(":")) ?? text;
}

/** The canonical form of an address that has brackets, a zone or neither. */
function canonicalColonForm(text: string): string | undefined {
  const inner = text.startsWith("[") && text.endsWith("]") ? text.slice(1, -1) : text;
  const zone = inner.indexOf("%");
  return canonicalIpv6(zone < 0 ? inner : inner.slice(0, zone));
}

/** URLs have the canonical form, except for addresses that stand for IPv4. */
function canonicalIpv6(text: string): string | undefined {
  const url = IPV6_CHARACTERS.test(text) ? URL.parse(`http://[${text}]`) : null;
  if (url === null) return undefined;
  const canonical = url.hostname.slice(1, -1);
  const [, high, low] = MAPPED.exec(canonical) ?? [];
  if (high === undefined || low === undefined) return canonical;
  const bytes = [high, low].map((group) => Number.parseInt(group, 16));
  return bytes.map((pair) => `${pair >> 8}.${pair & 0xff}`).join(".");
}

/** The eight groups of a canonical IPv6 address. */
function groupsOf(address: string): readonly number[] {
  const [front = [], back = []] = address
    .split("::")
    .map((half) => (half === "" ? [] : half.split(":").map((group) => Number.parseInt(group, 16))));
  const zeros = new Array<number>(8 - front.length - back.length).fill(0);
  return [...front, ...zeros, ...back];
}

/** A mask of `width` bits that keeps the first `kept`. */
function maskOf(width: number, kept: number): number {
  const all = 2 ** width - 1;
  return kept >= width ? all : kept <= 0 ? 0 : (all << (width - kept)) & all;
}
