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
 * Bytes that are read from one connection before its turn has come: about what its peer may send without an answer
 * (HTTP/2: the window of the connection).
 */
export const MAX_READ_AHEAD = 1024 * 1024;
/** The same for all connections together. Beyond it a connection in line holds a single read, 64 KiB at most. */
export const MAX_READ_AHEAD_TOTAL = 32 * 1024 * 1024;
/** Bytes that a read counts in addition, so that many small ones are bounded as well. */
export const READ_AHEAD_PER_CHUNK = 512;

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

/**
 * The work that one turn of the event loop does for what connections have sent, in units of about 5 µs: a frame of
 * HTTP/2 is one unit, a JSON request is eight. A new connection waits for one or two such turns.
 */
export const MAX_WORK_PER_TURN = 1_024;
/** Milliseconds after which a turn ends, however little it has done: checks may cost far more than five microseconds. */
export const MAX_TURN_MS = 10;
/** Units of work after which a turn reads the clock again. */
export const WORK_BETWEEN_LOOKS = 16;
/** The part of a turn that one connection may use before it waits in line behind the others. */
export const MAX_WORK_PER_VISIT = 256;
/** Units of one JSON request. */
export const WORK_OF_JSON_REQUEST = 8;
/** Frames of HTTP/2 up to which a connection counts as new: its settings and a first call. */
export const FRAMES_OF_NEW_CONNECTION = 8;
/** Turns in a row that only accept connections. Then others go on, so that a flood of connections stops no calls. */
export const MAX_ACCEPTS_IN_A_ROW = 64;
