// Labels for telemetry that do not come from the request itself, in binary: the services at its two ends, and
// what every flow of the HTTP doors is.

import { Fragment } from "#wire/base64.ts";
import { writePair } from "#wire/check-request-writer.ts";
import { TELEMETRY_ENTRY } from "#wire/check-response.ts";
import { ProtoWriter } from "#wire/proto-writer.ts";
import { TYPE_LABEL } from "./reply.ts";
import { DESTINATION_LABEL, SOURCE_LABEL } from "./request-labels.ts";
import { UNKNOWN } from "./services.ts";

export function writeServices(out: ProtoWriter, source: string, destination: string): void {
  writePair(out, TELEMETRY_ENTRY, SOURCE_LABEL, source);
  writePair(out, TELEMETRY_ENTRY, DESTINATION_LABEL, destination);
}

function fragmentOf(write: (out: ProtoWriter) => void): Fragment {
  const out = new ProtoWriter();
  write(out);
  return new Fragment(out.copy());
}

function writeType(out: ProtoWriter): void {
  writePair(out, TELEMETRY_ENTRY, TYPE_LABEL, "http");
}

export const NOTHING = fragmentOf(() => undefined);
export const TYPE = fragmentOf(writeType);
/** No services are known, and the type. */
export const NOBODY_KNOWN = fragmentOf((out) => {
  writeServices(out, UNKNOWN, UNKNOWN);
  writeType(out);
});
