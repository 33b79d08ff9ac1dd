// Package telemetry shows what the agent does and changes nothing by showing
// it: metrics, health, a status document and a page for people, all read-only,
// without a record or a secret in them; and records and files over a socket
// that only the agent's user can open. A scrape, a page, a tap that nobody reads
// or a broken listener never slows or stops delivery.
package telemetry
