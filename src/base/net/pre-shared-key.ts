// TLS between processes that share a secret instead of certificates (RFC 5489): both sides prove that they know the key,
// and everything is encrypted with forward secrecy.

export interface PreSharedKey {
  /** Sent in clear. */
  readonly identity: string;
  /** 32 bytes. */
  readonly key: Buffer;
}

/** Settings of both sides. TLS 1.3 has no counterpart in Node. */
export const PRE_SHARED_KEY_TLS = {
  ciphers: "ECDHE-PSK-CHACHA20-POLY1305",
  minVersion: "TLSv1.2",
  maxVersion: "TLSv1.2",
} as const;
