// Package kusto makes one request and gives one classified answer. It knows
// the URLs, headers, tokens and error bodies of the streaming ingest endpoint,
// so that everybody else needs to know one word: the Verdict.
//
// It never sends a body twice, never follows a redirect, never reads more of
// an answer than it judges, and hands a token to nobody but the endpoint that
// was checked: over TLS, or to this machine itself.
package kusto
