package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"kusto-agent/internal/compressed"
	"kusto-agent/internal/format"
	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
	"kusto-agent/internal/units"
)

// resolve fills in the defaults of an input and what it takes from its cluster and the top level, and
// reports what is wrong with it. at is its path in the file src.
func (l *loader) resolve(in *Input, src *source, at string) {
	l.complain(src, at, in.Check())
	l.patterns(in, src, at)
	l.destination(in, src, at)
	in.Format = l.format(in, src, at)
	l.parsing(in, src, at)
	if spec, ok := format.Of(in.Format); ok {
		l.fitFormat(in, spec, src, at)
	}
	l.rules(in, src, at)
	l.sizes(in, src, at)
	if in.Durability == "spool" && l.cfg.Spool.MaxSize == 0 {
		src.bad(join(at, "durability"), "needs a spool, and spool.max_size is 0; give it a size, or set durability: file")
	}
}

// patterns checks paths and exclude of an input, whose path in the file src is at. A path with
// pattern characters that exists as a file is escaped, so that it stands for that file.
func (l *loader) patterns(in *Input, src *source, at string) {
	if len(in.Paths) == 0 {
		src.bad(join(at, "paths"), "missing; want the files to read, such as [/srv/app/*.json]")
	}
	for i, p := range in.Paths {
		if strings.ContainsAny(p, patternSigns) && isFile(p) {
			in.Paths[i] = EscapePattern(p)
		}
	}
	for key, patterns := range map[string][]string{"paths": in.Paths, "exclude": in.Exclude} {
		for i, p := range patterns {
			if p == "" || !doublestar.ValidatePathPattern(p) {
				src.bad(fmt.Sprintf("%s.%s[%d]", at, key, i), "not a pattern of files; want one such as /srv/app/*.json, and \\ before a sign that is not one of a pattern")
			}
		}
	}
}

// isFile reports whether a path exists, taken literally and not as a pattern, and is not a folder.
func isFile(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && !st.IsDir()
}

// destination fills in what says where the records of an input go: name, cluster and database. It
// reports names that are missing or not allowed. at is the path of the input in the file src.
func (l *loader) destination(in *Input, src *source, at string) {
	if in.Table == "" {
		src.bad(join(at, "table"), "missing; want the table that the records go to")
	}
	in.Name = cmp.Or(in.Name, in.Table)
	l.checkName(src, join(at, "table"), "table", in.Table)
	l.checkName(src, join(at, "mapping"), "mapping", in.Mapping)
	l.checkName(src, join(at, "name"), "input", in.Name)
	in.Cluster = cmp.Or(in.Cluster, DefaultCluster)
	c, known := l.cfg.Clusters[in.Cluster]
	if !known {
		l.unknownCluster(in, src, at)
		return
	}
	in.ClusterURL = c.URL
	in.Database = cmp.Or(in.Database, c.Database)
	if in.Database == "" && !src.wrong[join(at, "database")] {
		l.main.bad("database", "missing; want it at the top level, in the cluster or in each input")
	}
	l.checkName(src, join(at, "database"), "database", in.Database)
}

// unknownCluster reports that the cluster of an input does not exist, with what may have been
// meant. at is the path of the input in the file src.
func (l *loader) unknownCluster(in *Input, src *source, at string) {
	names := slices.Sorted(maps.Keys(l.cfg.Clusters))
	near, meant := Nearest(in.Cluster, names)
	at = join(at, "cluster")
	switch {
	case !src.given(at):
		// The input relies on the cluster of the top level, which is missing. If there are no others
		// either, that is reported once for the file, and not here.
		if len(names) > 0 {
			src.bad(at, "missing; the top level has no cluster, so want %s", orList(names))
		}
	case strings.Contains(in.Cluster, "://"):
		src.bad(at, "a URL; want the name of one of clusters, where the URL belongs")
	case meant:
		src.bad(at, "%q is none of clusters; did you mean %s?", in.Cluster, near)
	case len(names) > 0:
		src.bad(at, "%q is none of clusters; want %s", in.Cluster, orList(names))
	default:
		src.bad(at, "%q is none of clusters; add it there, with its url", in.Cluster)
	}
}

// checkName reports a name that the service does not allow. kind is the word for what is named
// (table, mapping, input, database), and at the path of the key in the file src. An empty name, and
// one that is not written at this path, is ignored, since it is checked where it is written.
func (l *loader) checkName(src *source, at, kind, name string) {
	if name == "" || !src.given(at) {
		return
	}
	if err := kusto.ValidName(kind, name); err != nil {
		src.bad(at, "%s", unnamed(err))
	}
}

// unnamed returns the text of the error that err wraps, or of err if it wraps none. The errors it
// is used for put a name or URL before the text that they wrap; it is left out because the line of
// the file is shown below, where secrets are masked.
func unnamed(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	return err.Error()
}

// format returns the format of an input: as written, or by the extensions of its paths, or JSON if
// lines are parsed. A format that is unknown, or that the extensions do not tell, is reported, and
// the result may then be "". at is the path of the input in the file src.
func (l *loader) format(in *Input, src *source, at string) record.Format {
	at = join(at, "format")
	if src.given(at) {
		f, ok := format.Lookup(string(in.Format))
		if !ok {
			src.bad(at, "%q is not a format; want %s", shortened(string(in.Format)), orList(formatNames()))
		} else if parses(in) && f != record.JSON {
			src.bad(at, "%s, and parse: %s makes JSON of every line; leave format out, or set JSON", f, in.Parse)
		}
		return f
	}
	if parses(in) {
		return record.JSON
	}
	var found record.Format
	for _, p := range in.Paths {
		f, ok := formatOf(p)
		if !ok || found != "" && f != found {
			src.bad(at, "missing, and the names of the files do not tell; want %s", orList(formatNames()))
			return ""
		}
		found = f
	}
	return found
}

// formatOf returns the format that the extension of a pattern for paths stands for, such as .csv,
// or .{json,jsonl} if all choices stand for one format. It returns false if there is no such
// format, or several.
func formatOf(pattern string) (found record.Format, ok bool) {
	ext := extension(pattern)
	choices := []string{strings.TrimPrefix(ext, ".")}
	if inner, isChoice := strings.CutPrefix(ext, ".{"); isChoice {
		choices = strings.Split(strings.TrimSuffix(inner, "}"), ",")
	}
	for _, c := range choices {
		f, known := format.ByExtension("." + c)
		if !known || found != "" && f != found {
			return "", false
		}
		found = f
	}
	return found, found != ""
}

// extension returns the extension of the names that match a pattern for paths, such as .json,
// without one of compression (.gz, .zst). It can be a pattern itself, such as .{json,jsonl}.
func extension(pattern string) string {
	name := path.Base(pattern)
	ends := []string{"{," + strings.Join(compressed.Extensions, ",") + "}"}
	for _, end := range compressed.Extensions {
		ends = append(ends, end, "{,"+end+"}")
	}
	for _, end := range ends {
		if inner, is := strings.CutSuffix(name, end); is {
			return path.Ext(inner)
		}
	}
	return path.Ext(name)
}

// formatNames returns the names of all formats of records, as they are written in the
// configuration.
func formatNames() (names []string) {
	for _, s := range format.All() {
		names = append(names, string(s.Format))
	}
	return names
}

// fitFormat checks the settings that depend on the format, such as mapping and header, and resolves
// compression: auto becomes gzip, or none if the format is compressed by itself. spec says what
// holds for the format; at is the path of the input in the file src.
func (l *loader) fitFormat(in *Input, spec format.Spec, src *source, at string) {
	switch {
	case !spec.NeedsMap || in.Mapping != "":
	case parses(in):
		src.bad(join(at, "mapping"), "missing; parse: %s makes JSON, which needs the name of a mapping of the table of kind Json", in.Parse)
	default:
		src.bad(join(at, "mapping"), "missing; format %s needs the name of a mapping of the table of kind %s", spec.Format, spec.Mapping)
	}
	if in.Header == "skip" && spec.Delimiter == 0 {
		src.bad(join(at, "header"), "format %s has no header; want none", spec.Format)
	}
	if spec.Ends == format.InBlocks {
		l.blocksOnly(spec, src, at)
	}
	l.fields(in, spec, src, at)
	switch {
	case in.Compression != "auto":
	case spec.Compressed:
		in.Compression = "none"
	default:
		in.Compression = "gzip"
	}
}

// blocksOnly reports keys that have no meaning for a format that is read in blocks and not record
// by record (Avro). at is the path of the input in the file src.
func (l *loader) blocksOnly(spec format.Spec, src *source, at string) {
	for _, key := range blockless {
		if src.given(join(at, key)) {
			src.bad(join(at, key), "format %s is read in blocks, not in records; %s", spec.Format, map[string]string{
				"max_record_size":   "leave it out: a block may be as large as batch.max_size allows",
				"partial_line_wait": "leave it out: a block is sent when it is whole",
			}[key])
		}
	}
}

// blockless is the keys that are not for formats that are read in blocks.
var blockless = []string{"max_record_size", "partial_line_wait"}

// fields checks the section fields of an input, which names the values to add to every record, and
// reports the mistakes. at is the path of the input in the file src. A mistake in a text that a
// variable has filled in is reported without the text, which may be a secret.
func (l *loader) fields(in *Input, spec format.Spec, src *source, at string) {
	at = join(at, "fields")
	if len(in.Fields) > 0 && spec.Mapping != "Json" {
		src.bad(at, "nothing can be added to records of format %s; leave it out, or set format JSON or MultiJSON, or parse", spec.Format)
		return
	}
	_, err := format.NewFields(in.Fields)
	for _, err := range leaves(err) {
		var bad *units.KeyError
		switch {
		case !errors.As(err, &bad):
			src.bad(at, "%v", err)
		case src.places[join(at, bad.Key)].expanded != "":
			// What a variable holds may be a secret that was meant for another key.
			src.bad(join(at, bad.Key), "a brace in what the variables put in; want {{ there for a brace, and places such as {host} only here")
		default:
			src.bad(join(at, bad.Key), "%s", bad.Problem)
		}
	}
}

// sizes checks that the largest record of an input fits into one payload. If max_record_size is not
// written it is lowered to what fits. It also reports mistakes in the batch settings that the input
// itself sets. at is the path of the input in the file src.
func (l *loader) sizes(in *Input, src *source, at string) {
	var given []error
	for _, err := range leaves(in.Batch.Validate()) {
		// A mistake in a value that comes from the top level was reported there.
		if e, ok := err.(*units.KeyError); ok && src.given(join(at, "batch."+e.Key)) {
			given = append(given, e)
		}
	}
	l.complain(src, join(at, "batch"), given...)
	own := join(at, "max_record_size")
	size, what := roomFor(in)
	most := units.Size(size)
	if !src.given(own) {
		in.MaxRecordSize = min(in.MaxRecordSize, most)
	} else if in.MaxRecordSize > most && !l.refused(origin{src, at}, "batch.max_size") {
		src.bad(own, "%v is more than %s, %v; want no more, since a record leaves in one batch", in.MaxRecordSize, what, most)
	}
}
