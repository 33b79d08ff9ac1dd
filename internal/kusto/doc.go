// Package kusto holds the words of an exchange with a cluster: a request to store
// records, the one Verdict that its answer means, and an Error that says what to do. It
// makes no request, so that a package which retries or stores needs no more than this.
//
// Three packages below it make requests. Package wire sends a body once and classifies
// the answer: it follows no redirect, and sends a token only over TLS or to this machine.
// Package credential signs in and keeps tokens fresh. Package query asks for rows and runs
// management commands, and hands on every row or an error.
package kusto
