// When certificates of the webhook are replaced, and by what: a pure function of those in use and the time, so that replicas
// that see the same Secret take the same step. The order keeps every handshake valid: a new authority is trusted by the API
// server before anything that it issued is shown, and the old one until nothing that it issued is shown any more.

import { createPrivateKey, X509Certificate } from "node:crypto";
import { commonName, issue, makeAuthority, type Pair, type Validity } from "./certificate.ts";

export interface Material {
  /** The authority that issues new certificates. */
  readonly authority: Pair;
  /** The certificate of the authority before it, while it is still trusted; "" otherwise. */
  readonly previous: string;
  /** The certificate that the webhook serves with. */
  readonly serving: Pair;
}

export interface RotationRules {
  /** DNS names of the webhook; the first is that by which the API server calls it. */
  readonly names: readonly [string, ...string[]];
  /** Lifetimes in ms. A certificate is replaced when a third of its own is left. */
  readonly servingLifetime: number;
  readonly authorityLifetime: number;
  /** Time in ms for all API servers to learn of an authority, and for all replicas to show a new certificate. */
  readonly overlap: number;
}

export interface RotationState {
  /** Unix ms. */
  readonly now: number;
  /** Whether the API server is told to trust the authority of the material. */
  readonly isPublished: boolean;
}

export interface Rotation {
  readonly material: Material;
  /** Description of the change, for the log; undefined where nothing changed. */
  readonly done: string | undefined;
}

export const AUTHORITY_NAME = "sluice-injector";

/** Clocks differ: certificates are valid from a bit before they are made. */
const BACKDATED_MS = 5 * 60_000;
const REPLACED_WHEN_LEFT = 1 / 3;

/** The next step, one at a time; `material` is undefined where there is none that can be used. */
export function rotate(
  material: Material | undefined,
  rules: RotationRules,
  { now, isPublished }: RotationState,
): Rotation {
  if (material === undefined || !isUsable(material, now)) {
    const authority = newAuthority(rules, now);
    const serving = newServing(authority, rules, now);
    const done = "made an authority and a certificate for the webhook";
    return { material: { authority, previous: "", serving }, done };
  }
  const { authority, previous, serving } = material;
  const authorityCert = new X509Certificate(authority.cert);
  const servingCert = new X509Certificate(serving.cert);
  const isOfAuthority = servingCert.verify(authorityCert.publicKey);
  if (!isOfAuthority) {
    // The API server learns of the new authority meanwhile.
    if (!isPublished || now < madeAt(authorityCert) + rules.overlap)
      return { material, done: undefined };
    const next = { ...material, serving: newServing(authority, rules, now) };
    return { material: next, done: "the new authority issued a certificate for the webhook" };
  }
  if (previous !== "" && now >= madeAt(servingCert) + rules.overlap) {
    const done = "the old authority is no longer trusted";
    return { material: { ...material, previous: "" }, done };
  }
  if (previous === "" && isDue(authorityCert, now)) {
    const next = { ...material, authority: newAuthority(rules, now), previous: authority.cert };
    return { material: next, done: "made a new authority, which is announced first" };
  }
  const isNamed = rules.names.every((name) => servingCert.checkHost(name) !== undefined);
  if (isDue(servingCert, now) || !isNamed) {
    const next = { ...material, serving: newServing(authority, rules, now) };
    return { material: next, done: "made a new certificate for the webhook" };
  }
  return { material, done: undefined };
}

/** The certificates that the API server should trust. */
export function bundleOf({ authority, previous }: Material): string {
  return `${authority.cert}${previous}`;
}

/** Whether the parts belong together and the webhook can be called with them. Others could have written the Secret. */
function isUsable({ authority, previous, serving }: Material, now: number): boolean {
  try {
    const authorityCert = new X509Certificate(authority.cert);
    const servingCert = new X509Certificate(serving.cert);
    const trusted = previous === "" ? [] : [new X509Certificate(previous)];
    return (
      authorityCert.checkPrivateKey(createPrivateKey(authority.key)) &&
      servingCert.checkPrivateKey(createPrivateKey(serving.key)) &&
      authorityCert.ca &&
      commonName(authorityCert) !== "" &&
      [authorityCert, ...trusted].some((issuer) => servingCert.verify(issuer.publicKey)) &&
      [authorityCert, servingCert].every((cert) => now < cert.validToDate.getTime())
    );
  } catch {
    return false;
  }
}

function newAuthority({ authorityLifetime }: RotationRules, now: number): Pair {
  return makeAuthority(AUTHORITY_NAME, validity(now, authorityLifetime));
}

/** Never outlives its authority. */
function newServing(authority: Pair, { names, servingLifetime }: RotationRules, now: number): Pair {
  const { from, to } = validity(now, servingLifetime);
  const last = new X509Certificate(authority.cert).validToDate.getTime();
  return issue(authority, names, { from, to: Math.min(to, last) });
}

function validity(now: number, lifetime: number): Validity {
  return { from: now - BACKDATED_MS, to: now + lifetime };
}

function madeAt(cert: X509Certificate): number {
  return cert.validFromDate.getTime() + BACKDATED_MS;
}

function isDue(cert: X509Certificate, now: number): boolean {
  const made = madeAt(cert);
  const end = cert.validToDate.getTime();
  return now >= end - (end - made) * REPLACED_WHEN_LEFT;
}
