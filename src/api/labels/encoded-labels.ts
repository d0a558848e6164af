// Telemetry labels that do not come from the request itself, encoded as protobuf map entries: the services at its
// two ends and the type of the control point. Constant entries are encoded once.

import { writePair } from "#wire/check/request-writer.ts";
import { TELEMETRY_ENTRY } from "#wire/check/response.ts";
import { Fragment } from "#wire/protobuf/base64.ts";
import { ProtoWriter } from "#wire/protobuf/writer.ts";
import { DESTINATION_LABEL, SOURCE_LABEL, TYPE_LABEL, UNKNOWN_SERVICES } from "./attributes.ts";

export function writeServiceLabels(out: ProtoWriter, source: string, destination: string): void {
  writePair(out, TELEMETRY_ENTRY, SOURCE_LABEL, source);
  writePair(out, TELEMETRY_ENTRY, DESTINATION_LABEL, destination);
}

function writeType(out: ProtoWriter): void {
  writePair(out, TELEMETRY_ENTRY, TYPE_LABEL, "http");
}

function fragmentOf(write: (out: ProtoWriter) => void): Fragment {
  const out = new ProtoWriter();
  write(out);
  return new Fragment(out.copy());
}

export const NO_ENTRIES = fragmentOf(() => undefined);
/** The type of the control point, which is `http` for all checks of HTTP requests. */
export const TYPE_ENTRY = fragmentOf(writeType);
/** Unknown services at both ends, and the type: the same for all requests when there is no service discovery. */
export const UNKNOWN_SERVICES_AND_TYPE = fragmentOf((out) => {
  writeServiceLabels(out, UNKNOWN_SERVICES, UNKNOWN_SERVICES);
  writeType(out);
});
