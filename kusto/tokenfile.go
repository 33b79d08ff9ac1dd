package kusto

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// maxSecret bounds a file with a secret or a token in it, in bytes.
const maxSecret = 64 << 10

// readSecret reads a file whose one line is the secret.
func readSecret(path, key string) (string, error) {
	data, err := os.ReadFile(path)
	secret := strings.TrimRight(string(data), "\r\n")
	switch {
	case err != nil:
		return "", &Error{
			Message: printable("read "+key+": "+err.Error(), maxMessage), cause: err,
			Hint: "make " + printable(path, 256) + " readable for the user the agent runs as; under systemd, LoadCredential= hands it over",
		}
	case secret == "" || len(secret) > maxSecret:
		return "", &Error{
			Message: fmt.Sprintf("read %s: %s holds %d bytes, which is no secret", key, quoteName(path), len(data)),
			Hint:    "write the secret, and nothing else, into the file",
		}
	}
	return secret, nil
}

// fileGrant reads a token that something else keeps fresh.
type fileGrant struct {
	path string

	mu   sync.Mutex  // guards seen
	seen os.FileInfo // of the file last read; nil: there was none
}

// changed says that the file was written or replaced since it was read.
func (g *fileGrant) changed() bool {
	now, err := os.Stat(g.path)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err != nil:
		return false
	case g.seen == nil:
		return true
	}
	return !os.SameFile(now, g.seen) || now.Size() != g.seen.Size() || !now.ModTime().Equal(g.seen.ModTime())
}

func (g *fileGrant) close() {}

// fetch looks at the file before it reads it: what is written in between is
// seen as changed, and read again.
func (g *fileGrant) fetch(context.Context) (string, time.Time, error) {
	info, err := os.Stat(g.path)
	if err != nil {
		info = nil
	}
	g.mu.Lock()
	g.seen = info
	g.mu.Unlock()
	token, err := readSecret(g.path, "auth.token_file")
	if err != nil {
		return "", time.Time{}, err
	}
	expires := jwtExpiry(token)
	if !expires.IsZero() && !time.Now().Before(expires) {
		return "", time.Time{}, &Error{
			Message: fmt.Sprintf("read auth.token_file: the token in %s ended at %s", quoteName(g.path), expires.UTC().Format(time.RFC3339)),
			Hint:    "write a new token into the file; it is read as soon as it changes",
		}
	}
	return token, expires, nil
}

// jwtExpiry reads when a token ends, unverified; zero: it does not tell.
func jwtExpiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	var claims struct {
		Expires int64 `json:"exp"`
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Expires <= 0 {
		return time.Time{}
	}
	return time.Unix(claims.Expires, 0)
}
