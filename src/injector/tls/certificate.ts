// Creates X.509 certificates (RFC 5280): a certificate authority, and the server certificates that it issues. Node reads
// certificates and signs, but cannot create them. Keys use the curve P-256.

import {
  createHash,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from "node:crypto";
import {
  bits,
  boolean,
  element,
  integer,
  octets,
  oid,
  sequence,
  setOf,
  tagged,
  time,
  utf8,
} from "./der.ts";

/** A certificate and its private key, both as PEM. */
export interface Pair {
  readonly cert: string;
  readonly key: string;
}

export interface Validity {
  /** Unix ms. */
  readonly from: number;
  readonly to: number;
}

/** ECDSA with SHA-256. */
const SIGNATURE = "1.2.840.10045.4.3.2";
/** Bits of the key usage: sign certificates and revocation lists; sign handshakes. */
const SIGN_CERTIFICATES = 0x06;
const SIGN_HANDSHAKES = 0x80;

/** A certificate authority that may issue certificates for servers, but no further authorities. */
export function makeAuthority(name: string, validity: Validity): Pair {
  const keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const cert = certificate({
    issuer: name,
    subject: name,
    subjectKey: keys.publicKey,
    issuerKey: keys.privateKey,
    validity,
    extensions: [
      // CA, with a path length of 0.
      extension("2.5.29.19", true, sequence(boolean(true), integer(Buffer.from([0])))),
      extension("2.5.29.15", true, bits(Buffer.from([SIGN_CERTIFICATES]), 1)),
      extension("2.5.29.14", false, octets(keyId(keys.publicKey))),
    ],
  });
  return { cert, key: pemOf(keys.privateKey) };
}

/** A certificate for a server under these DNS names. */
export function issue(
  authority: Pair,
  names: readonly [string, ...string[]],
  validity: Validity,
): Pair {
  const keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const issuer = new X509Certificate(authority.cert);
  const cert = certificate({
    issuer: commonName(issuer),
    subject: names[0],
    subjectKey: keys.publicKey,
    issuerKey: createPrivateKey(authority.key),
    validity,
    extensions: [
      extension("2.5.29.19", true, sequence()),
      extension("2.5.29.15", true, bits(Buffer.from([SIGN_HANDSHAKES]), 7)),
      // Authentication of servers.
      extension("2.5.29.37", false, sequence(oid("1.3.6.1.5.5.7.3.1"))),
      extension("2.5.29.35", false, sequence(element(0x80, keyId(issuer.publicKey)))),
      extension(
        "2.5.29.17",
        false,
        sequence(...names.map((name) => element(0x82, Buffer.from(name, "ascii")))),
      ),
    ],
  });
  return { cert, key: pemOf(keys.privateKey) };
}

export function commonName({ subject }: X509Certificate): string {
  return /^CN=(.*)$/m.exec(subject)?.[1] ?? "";
}

interface Content {
  readonly issuer: string;
  readonly subject: string;
  readonly subjectKey: KeyObject;
  readonly issuerKey: KeyObject;
  readonly validity: Validity;
  readonly extensions: readonly Buffer[];
}

function certificate({
  issuer,
  subject,
  subjectKey,
  issuerKey,
  validity: { from, to },
  extensions,
}: Content): string {
  // At most 20 octets, positive, and not 0.
  const serial = Buffer.concat([Buffer.from([0x01]), randomBytes(15)]);
  const signed = sequence(
    tagged(0, integer(Buffer.from([2]))),
    integer(serial),
    sequence(oid(SIGNATURE)),
    nameOf(issuer),
    sequence(time(from), time(to)),
    nameOf(subject),
    subjectKey.export({ type: "spki", format: "der" }),
    tagged(3, sequence(...extensions)),
  );
  const signature = sign("sha256", signed, issuerKey);
  const whole = sequence(signed, sequence(oid(SIGNATURE)), bits(signature));
  const lines = whole.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}

function nameOf(commonName: string): Buffer {
  return sequence(setOf(sequence(oid("2.5.4.3"), utf8(commonName))));
}

function extension(id: string, isCritical: boolean, content: Uint8Array): Buffer {
  return sequence(oid(id), ...(isCritical ? [boolean(true)] : []), octets(content));
}

/** RFC 5280 §4.2.1.2: lets a verifier tell two authorities of the same name apart. */
function keyId(key: KeyObject): Buffer {
  return createHash("sha1")
    .update(key.export({ type: "spki", format: "der" }))
    .digest();
}

function pemOf(key: KeyObject): string {
  return String(key.export({ type: "pkcs8", format: "pem" }));
}
