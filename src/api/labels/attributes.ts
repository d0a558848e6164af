// The labels that describe a request besides its headers: their names, which operation has which of them, and
// the texts of some values.

import { HTTP_LABELS, PATH_LABEL, SERVICE_LABELS } from "#flow/label.ts";

export const [SOURCE_LABEL, DESTINATION_LABEL] = SERVICE_LABELS;
export const TYPE_LABEL = "aperture.control_point_type";

/** Value of the two service labels when no service is known. */
export const UNKNOWN_SERVICES = "UNKNOWN";

/** Value of the labels `aperture.source_fqdns` and `aperture.destination_fqdns`. */
export function servicesLabel(services: readonly string[]): string {
  return services.length === 0 ? UNKNOWN_SERVICES : services.join(",");
}

/**
 * The attribute labels of a request: those of a proxy's check, those of an HTTP request that its caller
 * describes, or only the services where a check describes no HTTP request.
 */
export type AttributeSet = "proxy" | "described" | "none";

const DESCRIBED_LABELS: readonly string[] = [...SERVICE_LABELS, ...HTTP_LABELS];

/** Label names that do not depend on headers. */
export const ATTRIBUTE_NAMES: Readonly<Record<AttributeSet, readonly string[]>> = {
  proxy: [...DESCRIBED_LABELS, PATH_LABEL],
  described: DESCRIBED_LABELS,
  none: SERVICE_LABELS,
};

/** Values of `http.flavor` that differ from the protocol's name. */
export const FLAVORS: Readonly<Record<string, string>> = {
  "HTTP/1.1": "1.1",
  "HTTP/2": "2.0",
  "HTTP/3": "3.0",
  "HTTP/1.0": "1.0",
};

export function flavorOf(protocol: string): string {
  return Object.hasOwn(FLAVORS, protocol) ? (FLAVORS[protocol] ?? protocol) : protocol;
}
