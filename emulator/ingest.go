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

// ingest is one streaming call: everything is checked before anything is
// stored, cheap checks before the body is asked for.
func (s *Server) ingest(w http.ResponseWriter, r *http.Request, rawDB, rawTable string) {
	c := s.begin(KindIngest, w, r)
	underWay := s.log.enter()
	defer s.log.leave()
	c.describe(rawDB, rawTable)

	if c.interrupted(OnArrival, nil) {
		return
	}
	if s.opt.MaxConcurrent > 0 && underWay > s.opt.MaxConcurrent {
		c.refuse(throttled(s.opt.RetryAfter))
		return
	}
	t, bad := c.admit()
	if bad != nil {
		c.refuse(bad)
		return
	}
	c.take(t)
}

// take reads, checks, stores and answers.
func (c *call) take(t target) {
	s := c.s
	body, bad := c.readBody()
	if bad != nil {
		c.refuse(bad)
		return
	}
	raw, release, bad := c.decode(body)
	defer release()
	if bad != nil {
		c.refuse(bad)
		return
	}
	got, bad := c.check(t, raw)
	if bad != nil {
		c.refuse(bad)
		return
	}
	if c.interrupted(BeforeCommit, raw) {
		return
	}
	c.rec.Records, c.rec.Dropped, c.rec.Stored = got.rows, got.dropped, true
	now := time.Now()
	s.store.commit(t, chunk{
		body: body, gzip: isGzip(c.r.Header), format: t.format, shape: t.shape,
		rows: got.rows, rawLen: len(raw), visible: now.Add(s.opt.VisibilityDelay), at: now.UTC(),
	}, s.opt)
	if c.interrupted(AfterCommit, raw) {
		return
	}
	c.send(http.StatusOK, jsonType, []byte(accepted))
}

// describe notes what the request says of itself, right or wrong: faults match
// it, and it is recorded.
func (c *call) describe(rawDB, rawTable string) {
	c.rec.Database, c.rec.Table = unescapeOr(rawDB), unescapeOr(rawTable)
	q := c.r.URL.Query()
	c.rec.Format, c.rec.Mapping = q.Get("streamFormat"), q.Get("mappingName")
}

// unescapeOr decodes one path segment, once. What cannot be decoded stays as
// it is: its percent sign makes it no valid name.
func unescapeOr(segment string) string {
	if name, err := url.PathUnescape(segment); err == nil {
		return name
	}
	return segment
}

// admit checks all that can be known without the body.
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
	if schema == nil {
		return t, nil
	}
	return t, c.resolve(&t, schema, principal)
}

// query reads the parameters of the call. Only the three that are documented
// exist, each at most once; a typing error should not pass in silence.
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
		return nil, badRequest("BadRequest_MissingMappingtFailure",
			"Avro and Json formats must be ingested with ingestionMapping or ingestionMappingReference. Format: '%s'.", f.name)
	}
	return f, nil
}

// resolve finds the names of the request in the schema and puts them into t.
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

// check counts the records of a decoded body, or says why it holds none.
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
