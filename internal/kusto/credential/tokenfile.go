package credential

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/reply"
	"kusto-agent/internal/units"
)

// maxSecret bounds a file with a secret or a token in it, in bytes.
const maxSecret = 64 << 10

// readSecret returns the content of a file that holds one secret, without the line end and without the
// byte order mark that some editors write. It fails if the file is empty or larger than maxSecret, or holds
// what no secret does, such as a second line: the authority would only say that the secret is wrong. key is
// the configuration key, for the error.
func readSecret(path, key string) (string, error) {
	data, err := readUpTo(path, maxSecret+1)
	secret := strings.TrimRight(strings.TrimPrefix(string(data), "\ufeff"), "\r\n")
	switch {
	case err != nil:
		return "", unreadable(path, key, err)
	case secret == "" || len(secret) > maxSecret:
		return "", &kusto.Error{
			Message: fmt.Sprintf("read %s: %s holds %s, which is no secret", key, reply.QuoteName(path), units.Counted(len(data), "byte")),
			Hint:    "write the secret, and nothing else, into the file",
		}
	case strings.ContainsFunc(secret, unicode.IsControl):
		return "", &kusto.Error{
			Message: fmt.Sprintf("read %s: %s holds more than one line, or control characters, which is no secret", key, reply.QuoteName(path)),
			Hint:    "write the secret, and nothing else, into the file, as UTF-8",
		}
	}
	return secret, nil
}

// readUpTo returns at most the first most bytes of a file. It never blocks: a FIFO without a writer
// reads as empty.
func readUpTo(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// ReadFiles reads the files that the method takes its secret from, by the functions that read them
// for a token, and returns why one of them cannot be used; nil if none is needed. For auto these are
// the files that the configuration names.
func (c Config) ReadFiles() (err error) {
	switch {
	case c.ClientSecretFile != "" && (c.Method == "client_secret" || c.Method == "auto"):
		_, err = readSecret(c.ClientSecretFile, "auth.client_secret_file")
	case c.Method == "certificate":
		_, _, err = (&certificateLogin{file: c.CertificateFile, password: c.CertificatePasswordFile}).read()
	case c.Method == "token_file":
		_, _, err = (&fileGrant{path: c.TokenFile}).read()
	case c.FederatedTokenFile != "" && (c.Method == "workload_identity" || c.Method == "auto"):
		_, err = (&federatedLogin{file: c.FederatedTokenFile}).read()
	}
	return err
}

// plainPath needs no quotes in a shell.
var plainPath = regexp.MustCompile(`^[A-Za-z0-9_./@%+=:,-]{1,256}$`)

// readHint returns what to do about a secret file that cannot be read. Files in the folder that
// systemd makes for a service cannot be written directly, so the hint for these names the credential
// store.
func readHint(path string) string {
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir != "" && filepath.Dir(path) == filepath.Clean(dir) {
		name := reply.Printable(filepath.Base(path), 256)
		return "put the secret into /etc/credstore/" + name + " and restart the service; its unit has to say LoadCredential=" + name
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return "name the file that holds it, which is perhaps in this folder"
	case errors.Is(err, fs.ErrNotExist):
		return "put it there: install -m 640 -g kusto-agent /dev/stdin " + shellName(path) + " reads it from the terminal, to Ctrl-D; or name the file that holds it"
	}
	return "let the user the agent runs as read it: chgrp kusto-agent " + shellName(path) + " && chmod g+r " + shellName(path) + "; under systemd, LoadCredential= hands it over"
}

// shellName returns a path for a shell command in a hint, in single quotes if it has characters
// that the shell could interpret.
func shellName(path string) string {
	if plainPath.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(reply.Printable(path, 256), "'", `'\''`) + "'"
}

// fileGrant reads a token that something else keeps fresh.
type fileGrant struct {
	path string
	seen seenFile
}

func (g *fileGrant) changed() bool { return g.seen.changed(g.path) }
func (g *fileGrant) close()        {}

// seenFile remembers how a file was when it was last read. It is safe for
// concurrent use.
type seenFile struct {
	mu   sync.Mutex  // guards info
	info os.FileInfo // nil: there was none
}

// look remembers the inode, size and modification time of the file for changed. Call it before the
// file is read, so that a write between the two calls shows as a change.
func (s *seenFile) look(path string) {
	info, _ := os.Stat(path) // nil after an error
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info = info
}

// changed reports whether the file differs in inode, size or modification time from what look
// remembered. A file that does not exist now has not changed; one that did not exist then and does
// now has.
func (s *seenFile) changed(path string) bool {
	now, err := os.Stat(path)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil:
		return false
	case s.info == nil:
		return true
	}
	return !os.SameFile(now, s.info) || now.Size() != s.info.Size() || !now.ModTime().Equal(s.info.ModTime())
}

// fetch is read.
func (g *fileGrant) fetch(context.Context) (string, time.Time, error) { return g.read() }

// read returns the token in the file and its expiry, which is zero if the token is not a JWT. It
// fails if the token has expired.
func (g *fileGrant) read() (string, time.Time, error) {
	g.seen.look(g.path)
	return readToken(g.path, "auth.token_file", "write a new token into the file; it is read as soon as it changes")
}

// readToken returns the token in a file and its expiry, which is zero if the token is not a JWT. It
// fails if the token has expired: renew is the hint then, and key the configuration key for the error.
func readToken(path, key, renew string) (token string, expires time.Time, err error) {
	if token, err = readSecret(path, key); err != nil {
		return "", time.Time{}, err
	}
	if expires = jwtExpiry(token); !expires.IsZero() && !time.Now().Before(expires) {
		return "", time.Time{}, &kusto.Error{
			Message: fmt.Sprintf("read %s: the token in %s ended at %s", key, reply.QuoteName(path), expires.UTC().Format(time.RFC3339)), Timely: true,
			Hint: renew,
		}
	}
	return token, expires, nil
}

// jwtExpiry returns when a JWT expires, without verifying it; zero if it is not a JWT or does not say.
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
