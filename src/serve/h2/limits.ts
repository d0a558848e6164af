// The bounds of one HTTP/2 connection and of all together, each with its reason. What an operator would want to
// change has a key instead: header bytes, timeouts, connection age.

/**
 * Calls at once on one connection. A proxy opens another connection beyond it, so this bounds what one peer can
 * hold open without bounding what a busy one gets through.
 */
export const MAX_STREAMS = 1_000;

/** Our side of HPACK: the size that every peer may assume anyway. */
export const HEADER_TABLE = 4_096;
/** Fields of one request; the same number as over HTTP/1.1. */
export const MAX_FIELDS = 1_000;
/** Most bytes of a request's header fields (RFC 9113 §6.5.2), as other HTTP/2 servers allow; a smaller key wins. */
export const MAX_HEADER_LIST = 64 * 1024;
/**
 * A header block that is larger than the list may be is still read, so that its request can be refused politely,
 * up to this many times the list.
 */
export const BLOCK_PER_LIST = 2;
/** Frames of one header block: the largest in frames of 2 KiB. Small ones in any number are an attack. */
export const MAX_BLOCK_FRAMES = 64;

/** How far ahead of its handler a peer may send on one stream. */
export const STREAM_WINDOW = 256 * 1024;
/**
 * And on the connection. It has its room back at the end of a read, as what was read has been handed on by then: this
 * window bounds no memory, MAX_HELD does. It is wide enough that peers are told so before they have used it up.
 */
export const CONNECTION_WINDOW = 1024 * 1024;

/** Bytes kept for one peer (calls, requests not yet whole, replies not yet taken): nearly two of the largest messages. */
export const MAX_HELD = 8 * 1024 * 1024;
/** Bytes kept for all peers together. */
export const MAX_HELD_IN_ALL = 64 * 1024 * 1024;
/**
 * Of these, so many are only for connections that hold no more than LITTLE_HELD: the few that hold as much as they
 * may leave room for the messages and replies of all who need little.
 */
export const HELD_FOR_LITTLE = 16 * 1024 * 1024;
export const LITTLE_HELD = 128 * 1024;

/**
 * A frame that comes in parts counts as kept once it takes more than this: common ones never do, and with a frame
 * begun on every connection that a port takes this is 20 MiB.
 */
export const SMALL_FRAME = 2 * 1024;

/** Bytes written to a socket that its peer has not taken; beyond it replies wait where they are counted. */
export const MAX_UNTAKEN = 256 * 1024;

/** Bytes that one connection sends within a turn: then the others have theirs. */
export const MAX_TURN = 1024 * 1024;

/**
 * What a call counts as kept once it outlives what it came with: as much as a stream of messages takes, measured, and
 * more than a unary call does. About 20 000 wait at once in all.
 */
export const CALL_HELD = 3 * 1024;
/**
 * And for each byte of its head's size: many small fields take twice of it with what the tongue above makes of them. A
 * head that calls share counts for each of them, as the last one that is left keeps it.
 */
export const HELD_PER_HEAD_BYTE = 2;

/**
 * Of a long reply, what it counts as kept while its peer takes no more: so much that one peer may ask for three at
 * once, however long they are, and that no more than 23 of them wait in all, with their calls and 64 KiB each on the way.
 */
export const MAX_REPLY_HELD = MAX_HELD / 4;

/**
 * Heads that one connection remembers, with their blocks, by what they count as kept: less than half of what an idle
 * connection may cost, and enough for six to eight common ones.
 */
export const MAX_REMEMBERED = 8 * 1024;

/**
 * Frames that carry no call (settings, pings, priorities, windows, empty data, unknown ones): so many in a burst
 * and per second, and so many more for each call, since honest clients measure and widen windows as they call.
 */
export const CONTROL_BURST = 10_000;
export const CONTROL_PER_SECOND = 1_000;
export const CONTROL_PER_CALL = 10;
/**
 * A new size of first windows counts as one more such frame for each so many streams: widening them costs together
 * about what a frame costs. A client with 1 000 streams that measures may still do so 15 times a second.
 */
export const STREAMS_PER_CONTROL = 16;

/** Calls taken back, or broken so that we must reset them; each call that ends well makes up for one. */
export const RESET_BURST = 1_000;
export const RESETS_PER_SECOND = 100;

/** How many of the streams that ended last are known by what became of them: as many as may be open. */
export const REMEMBERED_ENDS = 1_024;

/**
 * An early reply and the wish that its sender stop, read together, make some clients drop the reply. So the wish
 * waits at least this long, or until the request has ended by itself, while what still comes is taken and dropped;
 * each stream may then send no more than its window had left.
 */
export const EARLY_REPLY_MS = 500;
/** Early replies of one connection that wait so; behind further ones the wish follows at once. */
export const MAX_EARLY_REPLIES = 100;

/** A peer that vanished without a FIN is noticed after this and one unanswered ping. */
export const PING_AFTER_MS = 5 * 60_000;
export const PING_ANSWER_MS = 20_000;
/** Between saying that no more calls are taken and naming the last one, unless the peer answers sooner. */
export const FAREWELL_MS = 1_000;
/** How long a connection that was told its fault may take to read that. */
export const LINGER_MS = 250;
