// HMAC-SHA256 for the signature of requests.
//
// Browsers offer the same only on https and on localhost (crypto.subtle), and only
// asynchronously. This works on every origin. A request signs about a hundred bytes.

const constants = new Uint32Array(64);
const initial = new Uint32Array(8);
{
  // The first 32 bits of the fractions of the cube and square roots of the primes.
  let found = 0;
  for (let n = 2; found < 64; n++) {
    let prime = true;
    for (let d = 2; d * d <= n; d++) if (n % d === 0) prime = false;
    if (!prime) continue;
    if (found < 8) initial[found] = fraction(Math.sqrt(n));
    constants[found++] = fraction(Math.cbrt(n));
  }
}

function fraction(x) { return Math.floor((x - Math.floor(x)) * 2 ** 32) >>> 0; }

/** Returns the SHA-256 of bytes. */
export function sha256(bytes) {
  const padded = new Uint8Array(((bytes.length + 8 >> 6) + 1) * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, bytes.length << 3);
  const hash = Uint32Array.from(initial);
  const w = new Uint32Array(64);
  for (let at = 0; at < padded.length; at += 64) block(hash, w, view, at);
  const out = new DataView(new ArrayBuffer(32));
  hash.forEach((word, i) => out.setUint32(i * 4, word));
  return new Uint8Array(out.buffer);
}

const rotate = (x, n) => x >>> n | x << 32 - n;

function block(hash, w, view, at) {
  for (let i = 0; i < 16; i++) w[i] = view.getUint32(at + i * 4);
  for (let i = 16; i < 64; i++) {
    const a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >>> 3) + (rotate(b, 17) ^ rotate(b, 19) ^ b >>> 10);
  }
  let [a, b, c, d, e, f, g, h] = hash;
  for (let i = 0; i < 64; i++) {
    const first = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + (e & f ^ ~e & g) + constants[i] + w[i] | 0;
    const second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + (a & b ^ a & c ^ b & c) | 0;
    h = g; g = f; f = e; e = d + first | 0;
    d = c; c = b; b = a; a = first + second | 0;
  }
  [a, b, c, d, e, f, g, h].forEach((word, i) => { hash[i] += word; });
}

/** Returns the HMAC-SHA256 of bytes under key, as bytes. */
export function hmac(key, bytes) {
  const block = new Uint8Array(64);
  block.set(key.length > 64 ? sha256(key) : key);
  return sha256(join(block.map((b) => b ^ 0x5c), sha256(join(block.map((b) => b ^ 0x36), bytes))));
}

function join(a, b) {
  const out = new Uint8Array(a.length + b.length);
  out.set(a);
  out.set(b, a.length);
  return out;
}
