// OpenTelemetry's LogsService/Export, to which a proxy sends its access log: one record for each finished request.

import type { UnaryHandler } from "#base/handler.ts";
import { type LogAttributes, readLogRecords, writeLogsReply } from "#wire/protobuf/otlp-logs.ts";

export interface LogRecordConsumer {
  /** False when the record could not be used. */
  consume(record: LogAttributes): boolean;
}

/**
 * Reports unusable records as a partial success: the sender does not send those again, and the others count.
 * @throws Fault INVALID_ARGUMENT for a message that is malformed or too large; then none of its records count
 */
export function exportLogs(consumer: LogRecordConsumer): UnaryHandler {
  return (message) => {
    let rejected = 0;
    for (const record of readLogRecords(message)) if (!consumer.consume(record)) rejected++;
    return writeLogsReply(rejected, "records without a readable decision");
  };
}
