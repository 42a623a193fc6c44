// samples.mjs for chains with a conductor that parses and writes anew: without what such a conductor cannot
// carry (a lone surrogate is a request that it never answers) or writes in another way.
export const awkward = {
  emoji: "👩‍👩‍👧‍👦 naïve Ω≈ç√ 日本語 \u2028\u2029 \u0000\u001f\u007f",
  escapes: '"\\\/\b\f\n\r\t</script>',
  big: 9007199254740991,
  small: -1.25e-7,
  nothing: null,
  "": [[], {}, [null, false, 0, ""]],
  id: 1,
  method: "session/update",
  jsonrpc: "1.0",
  idempotencyKey: "not a key: it stands in _meta",
  session: 7,
};

/** One MiB of text in which no two neighbouring characters have the same length in UTF-8. */
export const bigText = "aé日😀".repeat((1 << 20) / 10);
