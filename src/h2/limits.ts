// Limits of HTTP/2 connections, each with its reason. The first group also binds the port's other transports, so that a
// caller meets the same bounds on all of them. Limits that operators tune (header bytes, timeouts, connection age) are
// configuration keys instead.

/**
 * Calls in progress on one connection (HTTP/2: SETTINGS_MAX_CONCURRENT_STREAMS; HTTP/1.1: running handlers). It bounds
 * what one peer can hold open, not the throughput of a busy proxy, which opens another connection.
 */
export const MAX_CONCURRENT_CALLS = 1_000;
/**
 * Bytes buffered for one connection (calls, incomplete requests, replies that the peer has not read): nearly two
 * messages of the default limit (`server.grpc.max_message_bytes`).
 */
export const MAX_BUFFERED_PER_CONNECTION = 8 * 1024 * 1024;
/** Bytes buffered for all connections together. */
export const MAX_BUFFERED_TOTAL = 64 * 1024 * 1024;
/** Unconfirmed replies per connection. Honest peers confirm within a round trip. */
export const MAX_UNCONFIRMED_REPLIES = MAX_CONCURRENT_CALLS;
/** Silence after which a connection is pinged. A ping that times out reveals a peer that vanished without a FIN. */
export const PING_AFTER_MS = 5 * 60_000;
export const PING_TIMEOUT_MS = 20_000;

/** Our SETTINGS_HEADER_TABLE_SIZE: the default of RFC 9113 §6.5.2. */
export const HEADER_TABLE_SIZE = 4_096;
/**
 * Bytes of a request's header section (RFC 9113 §6.5.2), as in other HTTP/2 servers. A smaller configured value takes
 * precedence.
 */
export const MAX_HEADER_LIST_SIZE = 64 * 1024;
/** Field blocks up to this many times the allowed list size are read, so that the request can be refused properly. */
export const MAX_BLOCK_TO_LIST_RATIO = 2;
/**
 * Frames per field block: enough for the largest block in frames of 2 KiB. More frames are an attack (CONTINUATION
 * flood).
 */
export const MAX_FRAMES_PER_BLOCK = 64;

/** Frames up to which a connection counts as new: its settings and a first call. */
export const NEW_CONNECTION_FRAMES = 8;
/** Bytes that are read ahead from one connection: about what its peer may send without an answer. */
export const MAX_READ_AHEAD = 1024 * 1024;
/** Bytes that a read counts in addition, so that many small reads are bounded as well. */
export const READ_AHEAD_PER_CHUNK = 512;

/** Bytes that a peer may send ahead of the handler on one stream. */
export const STREAM_RECEIVE_WINDOW = 256 * 1024;
/**
 * Bytes that a peer may send ahead of the handlers on the whole connection. The window is reopened at the end of each
 * read, so it does not bound memory (MAX_BUFFERED_PER_CONNECTION does). It is wide enough that the update arrives
 * before a peer has used it up.
 */
export const CONNECTION_RECEIVE_WINDOW = 1024 * 1024;

/**
 * The part of MAX_BUFFERED_TOTAL that is reserved for connections which buffer at most MAX_LIGHT_CONNECTION, so that a
 * few greedy connections leave room for all light ones.
 */
export const RESERVED_FOR_LIGHT_CONNECTIONS = 16 * 1024 * 1024;
export const MAX_LIGHT_CONNECTION = 128 * 1024;

/**
 * Larger incomplete frames count as buffered; common frames never do. With one such frame on each of 10 000
 * connections, the uncounted memory is 20 MiB.
 */
export const MAX_UNCOUNTED_FRAME = 2 * 1024;

/** Bytes in the write queue of a socket. Beyond them, replies wait in their streams, where they are counted. */
export const MAX_SOCKET_BACKLOG = 256 * 1024;

/** Bytes that one connection sends per turn of the event loop before other connections get theirs. */
export const MAX_BYTES_PER_TURN = 1024 * 1024;

/**
 * Bytes that a call counts as buffered once it outlives the read or the next header section: as much as a call with
 * streamed messages occupies by measurement. About 20 000 calls can wait in the process.
 */
export const BUFFERED_PER_CALL = 3 * 1024;
/**
 * Bytes that a call counts in addition for each byte of its header section: many small fields occupy twice their size
 * with the values derived from them. Calls that share one head count it each, as the last of them keeps it alive.
 */
export const BUFFERED_PER_FIELD_BYTE = 2;

/**
 * A connection that buffers more than this takes no further call: the rest is for the data that the last call sends
 * ahead. The call is refused before anything is done for it (REFUSED_STREAM), so its caller may make it again.
 */
export const MAX_BUFFERED_FOR_NEW_CALL = MAX_BUFFERED_PER_CONNECTION - STREAM_RECEIVE_WINDOW;

/**
 * Bytes of decoded field blocks, counted as buffered memory, that one connection caches: six to eight typical blocks,
 * and less than half of the memory that an idle connection may occupy.
 */
export const MAX_BLOCK_CACHE = 8 * 1024;

/**
 * Control frames carry no call (SETTINGS, PING, PRIORITY, WINDOW_UPDATE, empty DATA, unknown ones). A connection may
 * send a burst, a number per second, and a number per call, since honest clients measure and widen windows as they
 * call.
 */
export const CONTROL_FRAME_BURST = 10_000;
export const CONTROL_FRAMES_PER_SECOND = 1_000;
export const CONTROL_FRAMES_PER_CALL = 10;
/**
 * A change of SETTINGS_INITIAL_WINDOW_SIZE costs one more control frame for each group of this many open streams, as
 * updating them costs about as much as a frame. A client with 1 000 streams can do so 15 times a second.
 */
export const STREAMS_PER_CONTROL_FRAME = 16;

/** Calls that the peer cancelled or broke. Each call that ends well makes up for one. */
export const RESET_BURST = 1_000;
export const RESETS_PER_SECOND = 100;

/** The most recently closed streams that are remembered: as many as may be open. */
export const CLOSED_STREAM_HISTORY = 1_024;

/**
 * Some clients lose an early reply that they read together with the RST_STREAM after it. The reset therefore waits at
 * least this long, or until the request ends by itself. Data that arrives is discarded, up to the rest of the stream's
 * receive window.
 */
export const EARLY_RESET_DELAY_MS = 500;
/** Early replies of one connection that may wait for their reset; further ones are reset at once. */
export const MAX_EARLY_REPLIES = 100;

/** Time between announcing GOAWAY and naming the last stream, unless the peer acknowledges the ping sooner. */
export const GOAWAY_DELAY_MS = 1_000;
/** Milliseconds that a failed connection stays open so that its peer can read the error. */
export const LINGER_MS = 250;
