package emulator

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"kusto-agent/emulator/internal/kql"
	"kusto-agent/emulator/internal/mgmt"
)

// hosted is the server as commands see it.
type hosted struct{ *Server }

func (h hosted) Stored(database, table string) int { return h.store.stored(database, table) }
func (h hosted) Drop(database, table string)       { h.store.drop(database, table) }
func (h hosted) Cancel(requestID string) bool      { return h.console.cancel(requestID) }

// Failures returns a row for each kind of error (table, code, format and mapping) among the remembered
// requests to the database that were refused for their content (400 or 413). Requests refused for
// another reason, such as throttled ones, are left out. The principal is the same in each row.
func (h hosted) Failures(database, principal string) *mgmt.Result {
	r := mgmt.NewResult("Database:string, Table:string, Principal:string, RootActivityId:guid, IngestionProperties:string, Count:long, FirstFailureOn:datetime, LastFailureOn:datetime, FailureKind:string, ErrorCode:string, Details:string")
	type key struct{ table, code, format, mapping string }
	first, last, count := map[key]Request{}, map[key]Request{}, map[key]int{}
	var order []key
	for _, q := range h.Requests() {
		if q.Status != 400 && q.Status != 413 || !strings.EqualFold(q.Database, database) {
			continue
		}
		k := key{q.Table, q.Code, q.Format, q.Mapping}
		if count[k]++; count[k] == 1 {
			first[k] = q
			order = append(order, k)
		}
		last[k] = q
	}
	for _, k := range order {
		p := kql.JSON(map[string]any{"Mapping": k.mapping, "Format": k.format, "Compressed": false, "IngestionSource": "Stream"})
		r.Add(database, k.table, principal, first[k].ActivityID, string(p), count[k], first[k].Time, last[k].Time, "Permanent", k.code, first[k].Message)
	}
	return r
}

// Statistics returns a row for each table of the database that has visible rows: how many requests and
// rows were stored, and their sizes. Durations come from the remembered requests; a table with none
// there has durations of 0. The principal is the same in each row, and the start and end are always
// those of the last minute.
func (h hosted) Statistics(database, principal string) *mgmt.Result {
	r := mgmt.NewResult("Database:string, Table:string, StartTime:datetime, EndTime:datetime, Count:long, MinDuration:timespan, MaxDuration:timespan, AvgDuration:timespan, " +
		"TotalDataSize:long, MinDataSize:long, MaxDataSize:long, TotalRowCount:long, MinRowCount:long, MaxRowCount:long, " +
		"IngestionStatus:string, NumOfRowStoresReferences:long, Principal:string, NodeId:string, IngestionProperties:string")
	took := make(map[string]*span)
	for _, q := range h.Requests() {
		if q.Status == http.StatusOK && strings.EqualFold(q.Database, database) {
			if took[q.Table] == nil {
				took[q.Table] = new(span)
			}
			took[q.Table].add(int64(q.Elapsed))
		}
	}
	for _, t := range h.Tables() {
		if !strings.EqualFold(t.Database, database) {
			continue
		}
		var size, rows span
		for _, c := range h.store.visible(t.Database, t.Table) {
			size.add(int64(c.rawLen))
			rows.add(int64(c.rows))
		}
		if size.count == 0 {
			continue
		}
		long := cmp.Or(took[t.Table], &span{count: 1})
		r.Add(database, t.Table, time.Now().Add(-time.Minute), time.Now(), size.count,
			time.Duration(long.least), time.Duration(long.most), time.Duration(long.sum/long.count),
			size.sum, size.least, size.most, rows.sum, rows.least, rows.most,
			"Success", 1, principal, mgmt.NodeID, `{"IngestionSource":"Stream"}`)
	}
	return r
}

// span has the count, sum and range of some values.
type span struct{ count, sum, least, most int64 }

// add takes one more value into the count, the sum, the least and the most.
func (s *span) add(n int64) {
	if s.count == 0 || n < s.least {
		s.least = n
	}
	s.count, s.sum, s.most = s.count+1, s.sum+n, max(s.most, n)
}
