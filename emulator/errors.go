package emulator

import (
	"fmt"
	"net/http"
	"os"
	"time"

	"kusto-agent/emulator/internal/kql"
	"kusto-agent/emulator/internal/mgmt"
)

// refusal is an answer other than 200. With a code it is rendered in the
// OneApiError form of the service, without one its text is sent as it is.
type refusal struct {
	status    int
	code      string
	message   string // short, the same for a whole class
	typ       string // .NET type of the exception
	detail    string // what exactly is wrong: @message
	permanent bool

	inner       *innerError // of the language; nil: none
	text        string
	contentType string
	header      http.Header
}

// answered stands for a request that needs no answer any more: it has one, or a fault gave one.
var answered = &refusal{}

const (
	badRequestText = "Request is invalid and cannot be executed."
	streamingType  = "Kusto.DataNode.Exceptions.StreamingIngestionRequestException"
	policyType     = "Kusto.DataNode.Exceptions.StreamingIngestionPolicyNotEnabledException"
	throttleType   = "Kusto.DataNode.Exceptions.ThrottlingException"
	tooLargeType   = "Kusto.DataNode.Exceptions.KustoRequestPayloadTooLargeException"
	serviceType    = "Kusto.DataNode.Exceptions.StreamingIngestionServiceException"
)

// badRequest returns the service's permanent 400 error with this code. The format and its arguments
// make the detailed message.
func badRequest(code, format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, code: code, message: badRequestText,
		typ: streamingType, detail: fmt.Sprintf(format, args...), permanent: true}
}

// notFound returns the permanent 400 error for a database, table or mapping (kind) that does not
// exist. The service answers these with 400, not with 404.
func notFound(kind, name string) *refusal { return refusalOf(mgmt.Unknown(kind, name)) }

// badStream returns the permanent 400 error for a body whose content cannot be ingested.
func badStream(db, table, code, detail string) *refusal {
	return badRequest(code, "Bad streaming ingestion request to %s.%s : %s", db, table, detail)
}

// policyOff returns the permanent 400 error for a table whose streaming ingestion policy is off.
func policyOff(db, table string) *refusal {
	e := badRequest("BadRequest_StreamingIngestionPolicyNotEnabled",
		"Streaming ingestion policy is not enabled for the table '%s' in database '%s'.", table, db)
	e.typ = policyType
	return e
}

// clusterOff returns the permanent 404 error for a cluster on which streaming ingestion is off.
func clusterOff() *refusal {
	return &refusal{status: http.StatusNotFound, code: "NotFound_StreamingIngestionDisabledForCluster",
		message: "Streaming ingestion is disabled for the cluster.", typ: serviceType,
		detail: "StreamingIngestionFunctionalityDisabled: streaming ingestion is not enabled on this cluster.", permanent: true}
}

// throttled returns the 429 error, with a Retry-After header in seconds, rounded up, when retryAfter
// is above 0.
func throttled(retryAfter time.Duration) *refusal {
	e := &refusal{status: http.StatusTooManyRequests, code: "Throttling", message: "Request is throttled.",
		typ: throttleType, detail: "The request was throttled: too many concurrent streaming ingestion requests."}
	if retryAfter > 0 {
		e.header = http.Header{"Retry-After": {fmt.Sprint(int64((retryAfter + time.Second - 1) / time.Second))}}
	}
	return e
}

// tooLarge returns the permanent error for a body above limit bytes: 413, or 400 where the option
// TooLargeAs400 is set. what names the body in the message, such as "request body".
func (s *Server) tooLarge(what string, limit int64) *refusal {
	detail := fmt.Sprintf("The %s exceeds the limit of %d bytes.", what, limit)
	if s.opt.TooLargeAs400 {
		return badRequest("Stream_InputStreamTooLarge", "%s", detail)
	}
	return &refusal{status: http.StatusRequestEntityTooLarge, code: "KustoRequestPayloadTooLargeException",
		message: "Request payload is too large.", typ: tooLargeType, detail: detail, permanent: true}
}

// forbidden returns the permanent 403 error for a principal that may not do the operation on the
// resource.
func forbidden(principal, operation, resource string) *refusal {
	return refusalOf(mgmt.Denied(principal, operation, resource))
}

// unauthorized returns the 401 error. Its body is empty as the service's is, or with the option
// DenyWithMessage the service's older message.
func (s *Server) unauthorized() *refusal {
	e := &refusal{status: http.StatusUnauthorized, header: http.Header{"Www-Authenticate": {`Bearer realm="emulator"`}}}
	if s.opt.DenyWithMessage {
		e.text, e.contentType = `{"Message":"Authorization has been denied for this request."}`, jsonType
	}
	return e
}

// wrongMethod returns the 405 error; allow is the value of its Allow header.
func wrongMethod(method, allow string) *refusal {
	return &refusal{status: http.StatusMethodNotAllowed, header: http.Header{"Allow": {allow}}, contentType: jsonType,
		text: fmt.Sprintf(`{"Message":"The requested resource does not support http method '%s'."}`, method)}
}

// byStatus returns the error that the service documents for a status; a fault without a code of its
// own answers with it. An unknown status gets the general internal error.
func byStatus(status int) *refusal {
	e := &refusal{status: status, code: "General_InternalServerError", typ: serviceType,
		message: "An internal server error occurred.", detail: "An internal server error occurred."}
	switch status {
	case 400:
		return badRequest("BadRequest_InvalidBlob", "The input stream is invalid.")
	case 403:
		return forbidden("aadapp=unknown", "StreamIngest", "table")
	case 404:
		return clusterOff()
	case 413:
		return (&Server{}).tooLarge("request body", 4<<20)
	case 429:
		return throttled(0)
	case 503:
		e.code = "ServiceUnavailable_StreamingIngestionDatabaseUnderMaintenance"
		e.message = "Database is under maintenance."
	case 504:
		e.code, e.message = "Timeout", "The request timed out."
	case 520:
		e.code, e.message = "StreamingIngestionServiceException", "Streaming ingestion failed."
	}
	return e
}

// oneAPI is the error document of the service, its fields in its order.
type oneAPI struct {
	Error struct {
		apiError
		Inner *innerError `json:"innererror,omitempty"`
	} `json:"error"`
}

// apiError is what both errors of a document have.
type apiError struct {
	Code      string     `json:"code"`
	Message   string     `json:"message"`
	Type      string     `json:"@type"`
	Detail    string     `json:"@message"`
	Context   apiContext `json:"@context"`
	Permanent bool       `json:"@permanent"`
}

// innerError is what exactly is wrong with a query.
type innerError struct {
	apiError
	ErrorCode    string `json:"@errorCode"`
	ErrorMessage string `json:"@errorMessage"`
}

type apiContext struct {
	Timestamp        string `json:"timestamp"`
	ServiceAlias     string `json:"serviceAlias"`
	MachineName      string `json:"machineName"`
	ProcessName      string `json:"processName"`
	ProcessID        int    `json:"processId"`
	ThreadID         int    `json:"threadId"`
	ClientRequestID  string `json:"clientRequestId"`
	ActivityID       string `json:"activityId"`
	SubActivityID    string `json:"subActivityId"`
	ActivityType     string `json:"activityType"`
	ParentActivityID string `json:"parentActivityId"`
	ActivityStack    string `json:"activityStack"`
}

// render returns the body of the answer and its content type: e.text as it is when e has no code; else
// the service's JSON error document, or its plain text for a client that does not accept JSON.
func (e *refusal) render(requestID, activity string, acceptsJSON bool) (body []byte, contentType string) {
	now := time.Now().UTC().Format("2006-01-02T15:04:05.0000000Z")
	switch {
	case e.code == "":
		return []byte(e.text), e.contentType
	case !acceptsJSON:
		return fmt.Appendf(nil, "%s: %s\nError details:\nClientRequestId='%s', ActivityId='%s', Timestamp='%s'.",
			e.message, e.detail, requestID, activity, now), textType
	}
	var doc oneAPI
	doc.Error.apiError = apiError{e.code, e.message, e.typ, e.detail, apiContext{
		Timestamp: now, ServiceAlias: "EMULATOR", MachineName: mgmt.NodeID, ProcessName: "Kusto.WinSvc.Svc",
		ProcessID: os.Getpid(), ThreadID: 1, ClientRequestID: requestID, ActivityID: activity, SubActivityID: activity,
		ActivityType: "DN.StreamingIngestCommand", ParentActivityID: activity,
		ActivityStack: fmt.Sprintf("(Activity stack: CRID=%s ARID=%s > DN.StreamingIngestCommand/%s)", requestID, activity, activity),
	}, e.permanent}
	if e.inner != nil {
		inner := *e.inner
		inner.Context = doc.Error.Context
		doc.Error.Inner = &inner
	}
	return kql.JSON(doc), jsonType
}
