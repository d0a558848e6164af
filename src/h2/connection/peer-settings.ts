// The settings that the peer sent in its SETTINGS frames (RFC 9113 §6.5.2).

import { ConnectionError, protocolError } from "../frames/connection-error.ts";
import {
  DEFAULT_WINDOW,
  ERROR_CODE,
  MAX_FRAME_SIZE,
  MAX_WINDOW,
  PAYLOAD_LENGTH,
  readUint32,
  SETTING,
} from "../frames/format.ts";
import { HEADER_TABLE_SIZE } from "../limits.ts";

const LARGEST_MAX_FRAME_SIZE = 0xffffff;

export class PeerSettings {
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
        throw new ConnectionError(
          ERROR_CODE.flowControl,
          "flow_control",
          "the first window is too large",
        );
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
