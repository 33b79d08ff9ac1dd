package initconfig

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"kusto-agent/internal/config"
	"kusto-agent/internal/telemetry"
)

// layout is the configuration file with what all answers have in common. @FILE@ stands for the name of
// the file, and @CLUSTER@, @AUTH@, @INPUT@ and @INCLUDE@ for lines of keys.
//
//go:embed agent.yaml.tmpl
var layout string

// keys are lines of the configuration file.
type keys struct{ strings.Builder }

// add adds a line with a key and its value, behind so many spaces, and why as a comment.
func (k *keys) add(indent int, key, value, why string) {
	text := strings.Repeat(" ", indent) + key + ": " + value
	if why != "" {
		text = fmt.Sprintf("%-46s # %s", text, why)
	}
	k.WriteString(text + "\n")
}

// text returns the configuration file that the answers give, as YAML with comments that explain the
// keys.
func (c *Answers) text() string {
	var cluster, auth, input keys
	cluster.add(0, "cluster", scalar(c.Cluster), "the query URL")
	if c.Trust {
		cluster.add(0, "allow_untrusted_endpoint", "true", "a token is sent there all the same")
	}
	cluster.add(0, "database", scalar(c.Database), "an input can name another")
	auth.add(2, "method", scalar(c.Auth), methodWords[c.Auth])
	for _, k := range []struct{ key, value, why string }{
		{"tenant", c.Tenant, ""}, {"client_id", c.ClientID, ""},
		{"client_secret_file", c.ClientSecretFile, "beside this file, or a credential of systemd"},
		{"certificate_file", c.CertificateFile, "beside this file, or a credential of systemd"},
		{"token_file", c.TokenFile, "read again when it changes"},
	} {
		if k.value != "" {
			auth.add(2, k.key, scalar(k.value), k.why)
		}
	}
	input.add(2, "- paths", "["+quotedScalar(c.Path)+"]", "** matches folders")
	input.add(4, "table", scalar(c.Table), "also names the input in commands, metrics and logs")
	if c.Mapping != "" {
		input.add(4, "mapping", scalar(c.Mapping), "which member or field goes to which column")
	}
	c.reading(&input)
	file := c.Output
	if file == "-" {
		file = "agent.yaml"
	}
	return strings.NewReplacer("@FILE@", telemetry.Printable(config.Quoted(file)),
		"@CLUSTER@\n", cluster.String()+"\n", "@AUTH@\n", auth.String()+"\n", "@INPUT@", input.String(), "@INCLUDE@", c.include()).Replace(layout)
}

// include returns the line that names the files of further inputs. It holds if the folder for them is beside
// the file, as the packages make it: what is put there would else be read by nobody, without a word.
func (c *Answers) include() string {
	const line = "include: [conf.d/*.yaml]"
	if c.Output != "-" {
		if info, err := os.Stat(filepath.Join(filepath.Dir(c.Output), "conf.d")); err == nil && info.IsDir() {
			return line
		}
	}
	return "# " + line
}

// reading adds the keys of the input that say how its files are read: parse
// with its settings or format, header and encoding. They follow from the guess about the sample, as
// far as it fits the chosen format.
func (c *Answers) reading(to *keys) {
	g := c.guess
	if g.Parse != "" && c.Format == "JSON" {
		to.add(4, "parse", g.Parse, parseWords[g.Parse])
		if e := g.Expression; e != nil {
			to.add(4, "pattern", "'"+strings.ReplaceAll(e.Pattern, "'", "''")+"'", "")
			if len(e.Types) > 0 {
				to.add(4, "types", typesOf(e.Types), "")
			}
			if e.Time {
				to.add(4, "time", "{member: time, layout: iso8601}", "zone: local, unless the log tells it or another is set")
			}
		}
		if g.Inner != "" {
			to.add(4, "inner", g.Inner, "what the messages hold, whose members stand beside those")
		}
	} else {
		to.add(4, "format", scalar(c.Format), "default: by the extension of the files")
	}
	if g.Header && c.Format == string(g.Format) {
		to.add(4, "header", "skip", "the first record of every file holds names")
	}
	if g.Encoding != "" {
		to.add(4, "encoding", g.Encoding, "UTF-8 is sent")
	}
}

// typesOf returns a YAML flow mapping from the names of the groups of a pattern to their types,
// sorted by name.
func typesOf(types map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(types)) {
		all = append(all, quotedScalar(name)+": "+types[name])
	}
	return "{" + strings.Join(all, ", ") + "}"
}

var parseWords = map[string]string{
	"docker":   "each message becomes a JSON object, with its time and stream",
	"cri":      "each message becomes a JSON object, with its time and stream",
	"logfmt":   "each line becomes a JSON object, with a member for each key",
	"syslog":   "each line becomes a JSON object, with its time, host, app and pid",
	"regex":    "each line becomes a JSON object, with a member for each group of the pattern",
	"combined": "each line becomes a JSON object, with status and bytes as numbers",
}

var methodWords = map[string]string{
	"none": "no token; only for an endpoint on this machine", "client_secret": "a client id and its secret",
	"certificate": "a client id and its certificate", "token_file": "another program puts tokens into a file",
	"managed_identity": "the identity of this machine", "workload_identity": "that of the Kubernetes service account", "azure_cli": "the user signed in with az login",
}

var bareScalar = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./:@-]*$`)

// reserved are words that are something else in YAML than text.
var reserved = regexp.MustCompile(`(?i)^(?:true|false|yes|no|on|off|null|y|n)$`)

// scalar returns text as a YAML scalar that reads back as the same string: bare if that is safe,
// otherwise in double quotes.
func scalar(text string) string {
	if bareScalar.MatchString(text) && !reserved.MatchString(text) && !strings.HasSuffix(text, ":") {
		return text
	}
	return quotedScalar(text)
}

// quotedScalar returns text as a YAML scalar in double quotes. It uses JSON, which YAML reads
// alike, but leaves < > & readable.
func quotedScalar(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		return text // a string can always be written
	}
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(b))
}
