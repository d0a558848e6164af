// Creates certificates with the openssl command, in a folder that is removed when the test ends.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Ending } from "../ending.ts";

export interface Certificate {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: Buffer;
  readonly key: Buffer;
}

export interface Authority extends Certificate {
  /** Issues a certificate for `localhost`, 127.0.0.1 and further `names`, for servers and clients; valid for two days by default. */
  issue(commonName: string, days?: number, names?: readonly string[]): Certificate;
}

function openssl(...args: readonly string[]): void {
  execFileSync("openssl", args, { stdio: "pipe" });
}

const KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];

export function temporaryFolder(test: Ending): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-tls-"));
  test.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function authority(folder: string, name: string): Authority {
  const own = paths(folder, name);
  const subject = ["-subj", `/CN=${name}`, "-days", "2"];
  openssl("req", "-x509", ...KEY, ...subject, "-keyout", own.keyFile, "-out", own.certFile);
  return {
    ...load(own),
    issue(commonName, days = 2, names = []) {
      const issued = paths(folder, `${name}-${commonName}`);
      openssl(
        "req",
        "-x509",
        ...KEY,
        "-subj",
        `/CN=${commonName}`,
        "-days",
        String(days),
        "-CA",
        own.certFile,
        "-CAkey",
        own.keyFile,
        "-addext",
        ["subjectAltName=DNS:localhost,IP:127.0.0.1", ...names.map((name) => `DNS:${name}`)].join(
          ",",
        ),
        "-addext",
        "basicConstraints=critical,CA:FALSE",
        "-keyout",
        issued.keyFile,
        "-out",
        issued.certFile,
      );
      return load(issued);
    },
  };
}

function paths(folder: string, name: string) {
  return { certFile: join(folder, `${name}.crt`), keyFile: join(folder, `${name}.key`) };
}

function load({ certFile, keyFile }: ReturnType<typeof paths>): Certificate {
  return { certFile, keyFile, cert: readFileSync(certFile), key: readFileSync(keyFile) };
}
