// Values that a proxy could damage: escapes, planes beyond the first, a lone surrogate, numbers, null
// against absent, an empty key, members that look like the envelope's own.
export const awkward = {
  emoji: "👩‍👩‍👧‍👦 naïve Ω≈ç√ 日本語 \u2028\u2029 \u0000\u001f\u007f",
  lone: "\ud83d",
  escapes: '"\\\/\b\f\n\r\t</script>',
  big: 9007199254740991,
  small: -1.25e-7,
  nothing: null,
  "": [[], {}, [null, false, 0, ""]],
  id: 1,
  method: "session/update",
  jsonrpc: "1.0",
  idempotencyKey: "not a key: it stands in _meta",
  sessionId: 7,
};

/** One MiB of text in which no two neighbouring characters have the same length in UTF-8. */
export const bigText = "aé日😀".repeat((1 << 20) / 10);
