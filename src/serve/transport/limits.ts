// Limits that every transport observes, so that a caller meets the same bounds whichever transport carries it. Limits of
// a single protocol are in the folder of that protocol; what operators tune has a configuration key instead.

/**
 * Calls in progress on one connection (HTTP/2: SETTINGS_MAX_CONCURRENT_STREAMS; HTTP/1.1: handlers at work). A proxy opens
 * another connection beyond it, so this bounds what one peer can hold open, not the throughput of a busy one.
 */
export const MAX_CONCURRENT_CALLS = 1_000;

/**
 * Bytes buffered for one connection (calls, incomplete requests, replies that the peer has not read): nearly two
 * messages of the default limit (`server.grpc.max_message_bytes`).
 */
export const MAX_BUFFERED_PER_CONNECTION = 8 * 1024 * 1024;
/** Bytes buffered for all connections together. */
export const MAX_BUFFERED_TOTAL = 64 * 1024 * 1024;

/**
 * Replies of one connection that leave something taken and that its peer has not confirmed: as many as calls may be open.
 * Honest peers confirm them within a round trip.
 */
export const MAX_UNCONFIRMED_REPLIES = MAX_CONCURRENT_CALLS;
/** Memory of such replies over HTTP/1.1, for all connections together. Over HTTP/2 they count as buffered bytes. */
export const MAX_UNCONFIRMED_BYTES = 16 * 1024 * 1024;
/**
 * Time for the reset by which a caller over HTTP/1.1 on another machine says, after it has closed its side, that it has
 * not read a reply.
 */
export const RESET_WITHIN_MS = 250;

/** Silence after which a connection is pinged. A peer that vanished without a FIN is noticed when the ping times out. */
export const PING_AFTER_MS = 5 * 60_000;
export const PING_TIMEOUT_MS = 20_000;
