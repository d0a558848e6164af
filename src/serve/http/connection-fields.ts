// Fields that speak of a connection which HTTP/2 has not, and make a message malformed (RFC 9113 §8.2.2): replies of
// either tongue go without them.

export const CONNECTION_FIELDS: ReadonlySet<string> = new Set([
  ...["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"],
]);
