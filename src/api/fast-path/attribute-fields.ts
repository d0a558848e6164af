// The telemetry entries that both fast checks make of a request's attributes. Their keys are encoded once; the entries of
// each reusable check point at its parts, so a check only writes them.

import { type SpanField, type SpanKey, spanKey } from "#wire/check/span-fields.ts";
import type { ByteSpan } from "#wire/protobuf/reader.ts";
import { FLAVORS } from "../labels/attributes.ts";

const KEYS: Readonly<Record<"method" | "target" | "host" | "scheme" | "flavor" | "path", SpanKey>> =
  {
    method: spanKey("http.method"),
    target: spanKey("http.target"),
    host: spanKey("http.host"),
    scheme: spanKey("http.scheme"),
    flavor: spanKey("http.flavor", FLAVORS),
    path: spanKey("http.path"),
  };

interface Parts {
  readonly method: ByteSpan;
  readonly path: ByteSpan;
  readonly host: ByteSpan;
  readonly scheme: ByteSpan;
  readonly protocol: ByteSpan;
}

export function attributeFields(parts: Parts): SpanField[] {
  return [
    { entry: KEYS.method, span: parts.method },
    { entry: KEYS.target, span: parts.path },
    { entry: KEYS.host, span: parts.host },
    { entry: KEYS.scheme, span: parts.scheme },
    { entry: KEYS.flavor, span: parts.protocol },
  ];
}

/** Those of a proxy's request. */
export function proxyAttributeFields(parts: Parts): SpanField[] {
  return [...attributeFields(parts), { entry: KEYS.path, span: parts.path }];
}
