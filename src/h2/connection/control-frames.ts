// Handles the frames that carry no call: WINDOW_UPDATE, SETTINGS, PING, PRIORITY, GOAWAY (RFC 9113 §6.3, §6.5 to
// §6.9) and unknown ones. Each draws on the connection's budget for such frames.

import { flowControlError, frameSizeError, protocolError } from "../frames/connection-error.ts";
import {
  DEFAULT_WINDOW,
  ERROR_CODE,
  FLAG,
  FRAME_TYPE,
  MAX_FRAME_SIZE,
  MAX_WINDOW,
  PAYLOAD_LENGTH,
  readUint31,
  readUint32,
  SETTING,
} from "../frames/format.ts";
import { HEADER_TABLE_SIZE, STREAMS_PER_CONTROL_FRAME } from "../limits.ts";
import { abortStream, type ReceiveContext, resetClosedStream } from "./receive-context.ts";

const WINDOW_OVERFLOW = "a flow-control window overflows";
const LARGEST_MAX_FRAME_SIZE = 0xffffff;

/** The settings that the peer sent (RFC 9113 §6.5.2). */
class PeerSettings {
  headerTableSize = HEADER_TABLE_SIZE;
  /** Smallest table size in the last frame: the next field block must announce it (RFC 7541 §4.2). */
  smallestTableSize = HEADER_TABLE_SIZE;
  initialWindowSize = DEFAULT_WINDOW;

  /** Reads a payload of complete settings. Throws ConnectionErrors. */
  read(bytes: Buffer, start: number, end: number): void {
    this.smallestTableSize = Number.POSITIVE_INFINITY;
    for (let at = start; at < end; at += PAYLOAD_LENGTH.setting) {
      this.#set(((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0), readUint32(bytes, at + 2));
    }
  }

  /** Settings that do not concern us, including unknown ones, are ignored. */
  #set(id: number, value: number): void {
    if (id === SETTING.headerTableSize) {
      this.headerTableSize = value;
      this.smallestTableSize = Math.min(this.smallestTableSize, value);
    } else if (id === SETTING.initialWindowSize) {
      if (value > MAX_WINDOW) {
        throw flowControlError("the first window is too large");
      }
      this.initialWindowSize = value;
    } else if (id === SETTING.maxFrameSize) {
      // We never send frames beyond the smallest allowed value, so only the range is checked.
      if (value < MAX_FRAME_SIZE || value > LARGEST_MAX_FRAME_SIZE) {
        throw protocolError("SETTINGS_MAX_FRAME_SIZE is out of its range");
      }
    } else if (id === SETTING.enablePush && value > 1) {
      throw protocolError("SETTINGS_ENABLE_PUSH must be 0 or 1");
    }
  }
}

export class ControlFrames {
  readonly #connection: ReceiveContext;
  readonly #peerSettings = new PeerSettings();

  constructor(connection: ReceiveContext) {
    this.#connection = connection;
  }

  /** Handles a control frame or one of an unknown type. */
  receive(
    type: number,
    flags: number,
    id: number,
    bytes: Buffer,
    start: number,
    end: number,
  ): void {
    this.#connection.budget.controlFrame();
    if (type === FRAME_TYPE.windowUpdate) this.#windowUpdate(id, bytes, start, end);
    else if (type === FRAME_TYPE.settings) this.#receiveSettings(flags, id, bytes, start, end);
    else if (type === FRAME_TYPE.ping) this.#ping(flags, id, bytes, start, end);
    else if (type === FRAME_TYPE.priority) this.#priority(id, bytes, start, end);
    else if (type === FRAME_TYPE.goAway) this.#goAway(id, end - start);
  }

  #windowUpdate(id: number, bytes: Buffer, start: number, end: number): void {
    if (end - start !== PAYLOAD_LENGTH.windowUpdate)
      throw frameSizeError("a WINDOW_UPDATE frame must have 4 bytes");
    const connection = this.#connection;
    const increment = readUint31(bytes, start);
    if (id === 0) {
      if (increment === 0) throw protocolError("a window update of 0");
      connection.sendWindow += increment;
      if (connection.sendWindow > MAX_WINDOW) throw flowControlError(WINDOW_OVERFLOW);
      connection.streams.resumeBlocked(connection);
      return;
    }
    if (connection.streams.isIdle(id)) throw protocolError("WINDOW_UPDATE on an idle stream");
    const stream = connection.streams.get(id);
    if (stream === undefined) {
      if (increment === 0) resetClosedStream(connection, id, ERROR_CODE.protocol, "stream");
      return;
    }
    stream.sendWindow += increment;
    if (increment === 0) abortStream(connection, stream, ERROR_CODE.protocol, "stream");
    else if (stream.sendWindow > MAX_WINDOW)
      abortStream(connection, stream, ERROR_CODE.flowControl, "stream");
    else stream.sendPending();
  }

  #receiveSettings(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id !== 0) throw protocolError("SETTINGS on a stream");
    if ((flags & FLAG.ack) !== 0) {
      if (end !== start) throw frameSizeError("a SETTINGS acknowledgement must be empty");
      return;
    }
    if ((end - start) % PAYLOAD_LENGTH.setting !== 0)
      throw frameSizeError("a SETTINGS frame of invalid length");
    const connection = this.#connection;
    const settings = this.#peerSettings;
    settings.read(bytes, start, end);
    if (settings.smallestTableSize < settings.headerTableSize) {
      connection.encoder.limitTable(settings.smallestTableSize);
    }
    connection.encoder.limitTable(settings.headerTableSize);
    connection.frames.settingsAck();
    this.#changeInitialWindow(settings.initialWindowSize);
  }

  /** A small frame can cause work for every stream, so it costs more the more streams there are. */
  #changeInitialWindow(window: number): void {
    const { streams, budget } = this.#connection;
    if (window === streams.initialSendWindow) return;
    for (let paid = 0; paid < streams.size; paid += STREAMS_PER_CONTROL_FRAME)
      budget.controlFrame();
    if (!streams.changeInitialWindow(window)) throw flowControlError(WINDOW_OVERFLOW);
  }

  #ping(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id !== 0) throw protocolError("PING on a stream");
    if (end - start !== PAYLOAD_LENGTH.ping) throw frameSizeError("a PING frame must have 8 bytes");
    if ((flags & FLAG.ack) !== 0) this.#connection.pingAcknowledged(bytes[end - 1] ?? 0);
    else this.#connection.frames.pingAck(bytes, start);
  }

  /** Validates priorities and ignores them (RFC 9113 §5.3.2). */
  #priority(id: number, bytes: Buffer, start: number, end: number): void {
    if (id === 0) throw protocolError("PRIORITY on stream 0");
    const rightLength = end - start === PAYLOAD_LENGTH.priority;
    const selfDependent = rightLength && readUint31(bytes, start) === id;
    if (rightLength && !selfDependent) return;
    const connection = this.#connection;
    const stream = connection.streams.get(id);
    if (stream !== undefined) {
      abortStream(
        connection,
        stream,
        selfDependent ? ERROR_CODE.protocol : ERROR_CODE.frameSize,
        "stream",
      );
    } else if (selfDependent) throw protocolError("a stream that depends on itself");
    else throw frameSizeError("a PRIORITY frame must have 5 bytes");
  }

  #goAway(id: number, length: number): void {
    if (id !== 0) throw protocolError("GOAWAY on a stream");
    if (length < PAYLOAD_LENGTH.goAway) throw frameSizeError("a GOAWAY frame that is too short");
    this.#connection.goAwayReceived();
  }
}
