// Writes the certificate to files, because the port reads its certificate from files and reloads them.

import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Pair } from "./certificate.ts";

export interface CertificateFiles {
  readonly cert_file: string;
  readonly key_file: string;
  write(pair: Pair): Promise<void>;
  remove(): Promise<void>;
}

/** Creates a folder that only this user may enter. */
export async function certificateFiles(): Promise<CertificateFiles> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-injector-"));
  const cert_file = join(folder, "certificate.pem");
  const key_file = join(folder, "key.pem");
  // Each file is complete at any time. A reader that sees only one new file keeps the old pair.
  const replace = async (path: string, text: string) => {
    await writeFile(`${path}.new`, text, { mode: 0o600 });
    await rename(`${path}.new`, path);
  };
  return {
    cert_file,
    key_file,
    async write({ cert, key }) {
      await replace(key_file, key);
      await replace(cert_file, cert);
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
