// The telemetry entries that both fast checks make of a request's attributes. They are built once for each reusable
// check and point at its parts, so a check only writes them.

import { type SpanField, spanField } from "#wire/check/span-fields.ts";
import { FLAVORS } from "../labels/attributes.ts";

type Part = Parameters<typeof spanField>[1];

export function attributeFields(parts: {
  readonly method: Part;
  readonly path: Part;
  readonly host: Part;
  readonly scheme: Part;
  readonly protocol: Part;
}): SpanField[] {
  return [
    spanField("http.method", parts.method),
    spanField("http.target", parts.path),
    spanField("http.host", parts.host),
    spanField("http.scheme", parts.scheme),
    spanField("http.flavor", parts.protocol, FLAVORS),
  ];
}
