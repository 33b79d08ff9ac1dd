package initconfig

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"kusto-agent/internal/config"
	"kusto-agent/internal/telemetry"
)

// text returns the configuration file that the answers give, as YAML with comments that explain the
// keys.
func (c *Answers) text() string {
	var b strings.Builder
	line := func(indent int, key, value, why string) {
		text := strings.Repeat(" ", indent) + key + ": " + value
		if why != "" {
			text = fmt.Sprintf("%-46s # %s", text, why)
		}
		b.WriteString(text + "\n")
	}
	file := c.Output
	if file == "-" {
		file = "agent.yaml"
	}
	fmt.Fprintf(&b, "# A configuration of kusto-agent. kusto-agent config explain KEY says more of any key, such as inputs.start_at.\n"+
		"# Further steps, each of which can be repeated:\n"+
		"#   kusto-agent setup --config %[1]s         # make the table, the mapping and the policy on the service; --dry-run prints them\n"+
		"#   kusto-agent check --config %[1]s         # look at everything that is needed, changing nothing\n"+
		"#   kusto-agent run --once --config %[1]s    # send what the files hold now, and end\n\n", telemetry.Printable(config.Quoted(file)))
	line(0, "cluster", scalar(c.Cluster), "the query URL")
	if c.Trust {
		line(0, "allow_untrusted_endpoint", "true", "a token is sent there all the same")
	}
	line(0, "database", scalar(c.Database), "an input can name another")
	b.WriteString("\n# The folder of what the agent remembers: how far each file is safe, what the service could not take yet, and what it\n" +
		"# refused. The service has /var/lib/kusto-agent; a start by hand has ./kusto-agent-state. With another folder everything\n" +
		"# is sent again.\n# state_dir: /var/lib/kusto-agent\n\n")
	b.WriteString("auth:\n")
	line(2, "method", scalar(c.Auth), methodWords[c.Auth])
	for _, k := range []struct{ key, value, why string }{
		{"tenant", c.Tenant, ""}, {"client_id", c.ClientID, ""},
		{"client_secret_file", c.ClientSecretFile, "beside this file, or a credential of systemd"},
		{"certificate_file", c.CertificateFile, "beside this file, or a credential of systemd"},
		{"token_file", c.TokenFile, "read again when it changes"},
	} {
		if k.value != "" {
			line(2, k.key, scalar(k.value), k.why)
		}
	}
	b.WriteString("\ninputs:\n")
	line(2, "- paths", "["+quotedScalar(c.Path)+"]", "** matches folders")
	line(4, "table", scalar(c.Table), "also names the input in commands, metrics and logs")
	if c.Mapping != "" {
		line(4, "mapping", scalar(c.Mapping), "which member or field goes to which column")
	}
	c.reading(line)
	b.WriteString("    # Files that are there when the input is first seen are read from their beginning; end leaves what they hold.\n" +
		"    # start_at: end\n" +
		"    # Rotated files are followed by themselves, also when they are compressed, and need not match paths.\n" +
		"    # exclude: [\"*.bak\"]\n" +
		"    # Records that are not wanted, and what of a record does not leave this machine:\n" +
		"    # drop: [{match: '/healthz'}]\n" +
		"    # redact: [{preset: [email, bearer], with: '***'}]\n\n" +
		"# One request carries what was written within max_wait, up to max_size. A longer wait means fewer, larger requests.\n" +
		"# batch: {max_wait: 1s, max_size: 4MB}\n\n" +
		"# While the service is down, records wait in the spool. Full, it has the agent stop reading: nothing is lost while the\n" +
		"# files are there.\n" +
		"# spool: {max_size: 10GiB}\n\n" +
		"# The status page, the metrics and the health checks; they show no records.\n" +
		"# telemetry: {listen: \"127.0.0.1:5878\"}\n")
	return b.String()
}

// reading writes, by calling line, the keys of the input that say how its files are read: parse
// with its settings or format, header and encoding. They follow from the guess about the sample, as
// far as it fits the chosen format.
func (c *Answers) reading(line func(indent int, key, value, why string)) {
	g := c.guess
	if g.Parse != "" && c.Format == "JSON" {
		line(4, "parse", g.Parse, parseWords[g.Parse])
		if e := g.Expression; e != nil {
			line(4, "pattern", "'"+strings.ReplaceAll(e.Pattern, "'", "''")+"'", "")
			if len(e.Types) > 0 {
				line(4, "types", typesOf(e.Types), "")
			}
			if e.Time {
				line(4, "time", "{member: time, layout: iso8601}", "zone: local, unless the log tells it or another is set")
			}
		}
		if g.Inner != "" {
			line(4, "inner", g.Inner, "what the messages hold, whose members stand beside those")
		}
	} else {
		line(4, "format", scalar(c.Format), "default: by the extension of the files")
	}
	if g.Header && c.Format == string(g.Format) {
		line(4, "header", "skip", "the first record of every file holds names")
	}
	if g.Encoding != "" {
		line(4, "encoding", g.Encoding, "UTF-8 is sent")
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
