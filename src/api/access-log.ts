// The door for access logs: OpenTelemetry's LogsService/Export, to which a proxy sends one record for each
// request that is over.

import type { UnaryHandler } from "#serve/handler.ts";
import { type LogAttributes, readLogRecords, writeLogsReply } from "#wire/otlp-logs.ts";

/** Learns from records. */
export interface RecordTaker {
  /** False when a record was of no use. */
  take(record: LogAttributes): boolean;
}

/** No record is fatal: those of no use are told to the sender, which does not send them again. */
export function exportLogs(taker: RecordTaker): UnaryHandler {
  return (message) => {
    let refused = 0;
    for (const record of readLogRecords(message)) if (!taker.take(record)) refused++;
    return writeLogsReply(refused, "records without a decision that can be read");
  };
}
