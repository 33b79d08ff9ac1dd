package initconfig

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kusto-agent/internal/config"
	"kusto-agent/internal/telemetry"
)

// Where logs are looked for when none is named, and how far: the search is for a person
// who waits.
var logFolders = []string{".", "/var/log", "/srv", "/opt"}

const (
	mostEntries   = 20_000 // names that are looked at
	mostDepth     = 5      // folders below one of logFolders
	mostCandidate = 12     // files that are shown
	mostPerFolder = 3
)

// aLog is a file that a person may want to ship.
type aLog struct {
	path string
	size int64
	time time.Time // when it was last written
}

// rotatedName is the name of a file that a program does not write to any more, or that is
// no log of lines, or one of an agent's quarantine, which no agent reads.
var rotatedName = regexp.MustCompile(`(?i)(?:[-.](?:[0-9]{1,3}|[0-9]{8}(?:[-.][0-9]+)?|old|bak|gz|zst|xz|bz2|zip|journal)|^[bw]tmp|^lastlog|^faillog|^tallylog|^[0-9a-f]{16}\.jsonl)~?$`)

// logName is the name of a log outside of /var/log, where every file is one.
var logName = regexp.MustCompile(`(?i)(?:\.(?:log|json|jsonl|ndjson|csv|tsv|psv|avro|out)|(?:^|/)logs?/[^/]+)$`)

// findLogs returns files below the folders that look like logs, the last written first. To be quick
// it stops after mostEntries names, goes only mostDepth folders deep, and returns at most
// mostCandidate files, and mostPerFolder of each folder. What cannot be read is left out.
func findLogs(folders []string) (found []aLog) {
	left := mostEntries
	seen := make(map[string]bool)
	for _, folder := range folders {
		folder = config.Absolute(folder)
		_ = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error { // never fails
			if left--; left < 0 {
				return fs.SkipAll
			}
			switch depth := strings.Count(strings.TrimPrefix(path, folder), "/"); {
			case err != nil:
				return nil
			case e.IsDir() && path != folder && (depth >= mostDepth || seen[path] || strings.HasPrefix(e.Name(), ".") || e.Name() == "node_modules" || e.Name() == "journal"):
				return fs.SkipDir
			case e.IsDir():
				seen[path] = true
			case rotatedName.MatchString(e.Name()), !strings.HasPrefix(path, "/var/log/") && !logName.MatchString(path):
			default:
				if l, ok := asLog(path); ok {
					found = append(found, l)
				}
			}
			return nil
		})
	}
	slices.SortFunc(found, func(a, b aLog) int {
		return cmp.Or(b.time.Compare(a.time), strings.Compare(a.path, b.path))
	})
	found = slices.CompactFunc(found, func(a, b aLog) bool { return a.path == b.path })
	inFolder := make(map[string]int)
	found = slices.DeleteFunc(found, func(l aLog) bool {
		inFolder[filepath.Dir(l.path)]++
		return inFolder[filepath.Dir(l.path)] > mostPerFolder
	})
	return found[:min(len(found), mostCandidate)]
}

// asLog returns the file at path if it looks like a log: it is a regular file, can be read, is not
// empty and begins with text (or is Avro). The result is false otherwise.
func asLog(path string) (aLog, bool) {
	info, err := os.Stat(path) // follows links: in Kubernetes logs are reached through them
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return aLog{}, false
	}
	f, err := os.Open(path)
	if err != nil {
		return aLog{}, false
	}
	defer f.Close()
	head, err := bufio.NewReader(f).Peek(512)
	isText := bytes.HasPrefix(head, []byte("Obj\x01")) || bytes.HasPrefix(head, []byte{0xff, 0xfe}) || bytes.HasPrefix(head, []byte{0xfe, 0xff}) || !bytes.ContainsRune(head, 0)
	if len(head) == 0 || err != nil && err != io.EOF || !isText {
		return aLog{}, false
	}
	return aLog{path: path, size: info.Size(), time: info.ModTime()}, true
}

// which sets c.Sample if neither a sample nor a pattern was given: it lists the logs of this
// machine and asks which one is meant. If it finds none, it leaves c.Sample empty. If there is no
// terminal to ask on, it keeps their names in c.found for an error message.
func (c *Answers) which() error {
	if c.Sample != "" || c.Path != "" {
		return nil
	}
	if c.folders == nil {
		c.folders = logFolders
	}
	found := findLogs(c.folders)
	if len(found) == 0 {
		return nil // complete asks for a pattern later
	}
	if !c.Ask.On {
		for _, l := range found {
			c.found = append(c.found, l.path)
		}
		return nil
	}
	fmt.Fprintln(c.Ask.Out, "Logs on this machine, the last written first:")
	now := time.Now()
	for i, l := range found {
		fmt.Fprintf(c.Ask.Out, "%4d  %-50s %8s, written %s\n", i+1, telemetry.Printable(l.path), telemetry.BytesText(l.size), telemetry.AgoText(now, l.time))
	}
	choice := ""
	err := c.Ask.Value(&choice, "Which one, by its number, or the path of another", "1", false, func(s string) error {
		if n, err := strconv.Atoi(s); err == nil && (n < 1 || n > len(found)) {
			return fmt.Errorf("there is no %d; want 1 to %d, or a path", n, len(found))
		} else if err == nil {
			return nil
		}
		_, err := os.Stat(s)
		return err
	})
	if err != nil {
		return err
	}
	c.Sample = choice
	if n, err := strconv.Atoi(choice); err == nil {
		c.Sample = found[n-1].path
	}
	return nil
}

// likelyMethod returns the value of auth.method to propose: the one that the answers so far imply,
// or else one that needs no secret on this machine, or else client_secret.
func (c *Answers) likelyMethod() string {
	switch {
	case strings.HasPrefix(c.Cluster, "http://"):
		return "none"
	case c.CertificateFile != "":
		return "certificate"
	case c.TokenFile != "":
		return "token_file"
	case c.ClientSecretFile != "", c.Tenant != "" && c.ClientID != "":
		return "client_secret"
	case c.identity != nil:
		return c.identity()
	}
	return identity()
}

// identity returns the value of auth.method that needs no secret, judging by the environment and
// this machine: workload_identity, managed_identity or azure_cli; client_secret if none of them is
// at hand.
func identity() string {
	switch {
	case os.Getenv("AZURE_FEDERATED_TOKEN_FILE") != "":
		return "workload_identity"
	case os.Getenv("IDENTITY_ENDPOINT") != "", os.Getenv("MSI_ENDPOINT") != "", isAzureMachine():
		return "managed_identity"
	case isSignedIn():
		return "azure_cli"
	}
	return "client_secret"
}

// isAzureMachine reports whether this is a virtual machine of Azure. Its firmware has a fixed asset
// tag.
func isAzureMachine() bool {
	tag, err := os.ReadFile("/sys/class/dmi/id/chassis_asset_tag")
	return err == nil && strings.TrimSpace(string(tag)) == "7783-7084-3265-9085-8269-3286-77"
}

// isSignedIn reports whether this user has signed in to the Azure CLI, which keeps a profile file
// then.
func isSignedIn() bool {
	dir := os.Getenv("AZURE_CONFIG_DIR")
	if home, err := os.UserHomeDir(); dir == "" && err == nil {
		dir = filepath.Join(home, ".azure")
	}
	info, err := os.Stat(filepath.Join(dir, "azureProfile.json"))
	return dir != "" && err == nil && info.Size() > 0
}
