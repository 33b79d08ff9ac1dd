package emulator

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"kusto-agent/emulator/internal/kql"
)

// target is where a checked request writes to and how its body is read.
type target struct {
	database string // as the schema spells it; else as the request does
	table    string
	format   *format
	shape    *shape
}

// ingest handles one streaming ingestion request and returns its refusal, or answered. rawDB and
// rawTable are segments of its path, still percent-encoded. Everything is checked before anything is
// stored, and what can be checked without the body is checked before the body is read.
func (c *call) ingest(rawDB, rawTable string) *refusal {
	s := c.s
	underWay := s.log.enter()
	defer s.log.leave()
	c.describe(rawDB, rawTable)

	if c.interrupted(OnArrival, nil) {
		return answered
	}
	if s.opt.MaxConcurrent > 0 && underWay > s.opt.MaxConcurrent {
		return throttled(s.opt.RetryAfter)
	}
	t, bad := c.admit()
	if bad != nil {
		return bad
	}
	return c.take(t)
}

// take reads the body, checks it, stores its rows in the table t and answers with 200. Each refusal
// leaves the store unchanged. A scripted fault may answer instead, also after the commit.
func (c *call) take(t target) *refusal {
	s := c.s
	body, bad := c.readBody()
	if bad != nil {
		return bad
	}
	raw, release, bad := c.decode(body)
	defer release()
	if bad != nil {
		return bad
	}
	got, bad := c.check(t, raw)
	if bad != nil {
		return bad
	}
	if c.interrupted(BeforeCommit, raw) {
		return answered
	}
	c.rec.Records, c.rec.Dropped, c.rec.Stored = got.rows, got.dropped, true
	now := time.Now()
	s.store.commit(t, chunk{
		body: body, gzip: isGzip(c.r.Header), rows: got.rows, rawLen: len(raw), visible: now.Add(s.opt.VisibilityDelay),
		origin: origin{t.format, t.shape, now.UTC()},
	}, s.opt)
	if !c.interrupted(AfterCommit, raw) {
		c.send(http.StatusOK, jsonType, []byte(accepted))
	}
	return answered
}

// describe records database, table, format and mapping as the request states them, unchecked: faults
// match these, and the request log shows them.
func (c *call) describe(rawDB, rawTable string) {
	c.rec.Database, c.rec.Table = unescapeOr(rawDB), unescapeOr(rawTable)
	q := c.r.URL.Query()
	c.rec.Format, c.rec.Mapping = q.Get("streamFormat"), q.Get("mappingName")
}

// unescapeOr decodes one path segment, once. A segment that cannot be decoded is returned unchanged;
// its percent sign makes it an invalid name later.
func unescapeOr(segment string) string {
	if name, err := url.PathUnescape(segment); err == nil {
		return name
	}
	return segment
}

// admit checks everything that is known without the body: method, token, the cluster's switch,
// parameters, names, permissions and policy. It returns where to store the rows, or a refusal.
func (c *call) admit() (target, *refusal) {
	s := c.s
	if c.r.Method != http.MethodPost {
		return target{}, wrongMethod(c.r.Method, http.MethodPost)
	}
	principal, ok := s.tokens.principal(c.r.Header)
	if !ok {
		return target{}, s.unauthorized()
	}
	schema := s.catalog.Current()
	if !schema.IsStreaming() {
		return target{}, clusterOff()
	}
	f, bad := c.query()
	if bad != nil {
		return target{}, bad
	}
	if !kql.ValidName(c.rec.Database) {
		return target{}, notFound("Database", c.rec.Database)
	}
	if !kql.ValidName(c.rec.Table) {
		return target{}, notFound("Table", c.rec.Table)
	}
	t := target{database: c.rec.Database, table: c.rec.Table, format: f}
	if schema == nil { // every name exists
		return t, nil
	}
	bad = c.resolve(&t, schema, principal)
	return t, bad
}

// query checks the parameters of the URL and returns the stream format. Only the three documented
// parameters are accepted, each at most once, so that a misspelt one is an error.
func (c *call) query() (*format, *refusal) {
	q, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("BadRequest", "The query string is invalid: %v", err)
	}
	for name, values := range q {
		switch {
		case !slices.Contains([]string{"streamFormat", "mappingName", "sourceKind"}, name):
			return nil, badRequest("BadRequest", "Unknown query parameter '%s'.", name)
		case len(values) > 1:
			return nil, badRequest("BadRequest", "Query parameter '%s' is given more than once.", name)
		case name == "sourceKind":
			return nil, badRequest("BadRequest_SourceKindNotSupported", "sourceKind '%s' is not supported by the emulator.", values[0])
		}
	}
	f, ok := formats[strings.ToLower(q.Get("streamFormat"))]
	switch {
	case !ok:
		return nil, badRequest("BadRequest_FormatNotSupported", "Stream format '%s' is not supported.", q.Get("streamFormat"))
	case q.Has("mappingName") && q.Get("mappingName") == "":
		return nil, badRequest("BadRequest_EmptyMappingReference", "Ingestion mapping reference is empty.")
	case f.needsMapping && !q.Has("mappingName"):
		return nil, badRequest("BadRequest_MissingMappingtFailure", // spelt as the service spells it
			"Avro and Json formats must be ingested with ingestionMapping or ingestionMappingReference. Format: '%s'.", f.name)
	}
	return f, nil
}

// resolve looks the database, table and mapping of the request up in the schema and fills in t. It
// returns a refusal for an unknown name, a principal (client id) that is not an ingestor, and a table
// without streaming ingestion; nil if the request may go on. In an open schema unknown names are
// accepted, and t.shape stays nil: rows are kept as they were sent.
func (c *call) resolve(t *target, schema *Schema, principal string) *refusal {
	name, db := schema.Database(c.rec.Database)
	switch {
	case db == nil && schema.Open:
		return nil
	case db == nil:
		return notFound("Database", c.rec.Database)
	}
	t.database = name
	table := db.Tables[t.table]
	switch {
	case table == nil && schema.Open:
		return nil
	case table == nil:
		return notFound("Table", t.table)
	}
	if allowed := table.IngestorsIn(db); allowed != nil && !slices.Contains(allowed, principal) {
		return forbidden("aadapp="+principal, "StreamIngest", "https://"+c.r.Host+"/"+name+"/"+t.table)
	}
	if !table.IsStreaming(db) {
		return policyOff(name, t.table)
	}
	t.shape = &shape{columns: table.Columns}
	if c.rec.Mapping == "" {
		return nil
	}
	t.shape.mapping = table.Mapping(t.format.kind, c.rec.Mapping)
	if t.shape.mapping == nil {
		return notFound("MappingPersistent", c.rec.Mapping)
	}
	return nil
}

// check counts the records of a decoded body. It returns a refusal when the body is invalid in its
// format or holds no record.
func (c *call) check(t target, raw []byte) (tally, *refusal) {
	got, err := t.format.records(raw, nil)
	var bad *badData
	switch {
	case errors.As(err, &bad):
		return got, badStream(c.rec.Database, c.rec.Table, bad.code, bad.detail)
	case got.rows == 0:
		c.rec.Dropped = got.dropped
		return got, badStream(c.rec.Database, c.rec.Table, "BadRequest",
			"The input stream is empty after processing, tip:check stream validity")
	}
	return got, nil
}
