// Connection-specific fields, which make an HTTP/2 message malformed (RFC 9113 §8.2.2): replies over HTTP/2 are sent
// without them.

export const CONNECTION_FIELDS: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
]);
