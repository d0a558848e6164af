// The rotation of the webhook's certificates: a pure function of the present ones and the time, so that replicas with the same
// Secret take the same step. The order keeps every handshake valid: the API server trusts a new authority before any
// certificate of it is served, and the old authority until none of its certificates is served.

import { createPrivateKey, X509Certificate } from "node:crypto";
import { commonName, issue, makeAuthority, type Pair, type Validity } from "./certificate.ts";

export interface Material {
  /** The authority that issues new certificates. */
  readonly authority: Pair;
  /** The certificate of the previous authority while it is still trusted; empty otherwise. */
  readonly previous: string;
  /** The certificate that the webhook serves with. */
  readonly serving: Pair;
}

export interface RotationRules {
  /** DNS names of the webhook; the API server uses the first. */
  readonly names: readonly [string, ...string[]];
  /** Lifetimes in ms. A certificate is replaced when a third of its lifetime is left. */
  readonly servingLifetime: number;
  readonly authorityLifetime: number;
  /** Time in ms until all API servers know a new authority and all replicas serve a new certificate. */
  readonly overlap: number;
}

export interface RotationState {
  /** Unix ms. */
  readonly now: number;
  /** True if the API server trusts the present authority. */
  readonly isPublished: boolean;
}

export interface Rotation {
  readonly material: Material;
  /** Describes the change for the log; undefined for none. */
  readonly done: string | undefined;
}

export const AUTHORITY_NAME = "sluice-injector";

/** Certificates are valid from a bit earlier, because clocks differ. */
const BACKDATED_MS = 5 * 60_000;
const REPLACED_WHEN_LEFT = 1 / 3;

/** The next step; `material` is undefined if there is none yet. */
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
    // Until then the API server learns of the new authority.
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

export function bundleOf({ authority, previous }: Material): string {
  return `${authority.cert}${previous}`;
}

/** True if the parts belong together and are valid; somebody else could have written the Secret. */
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
