// Package bridge has the functions of package guest that its packages call and a handler does not see.
// Package guest sets them, whose types they are of, before a package that imports it begins.
package bridge

// Collect lets the collector run if there is enough to collect; the host may not be handing anything over.
var Collect func()

// AtEnd has what is called as a call of the handler ends, while imports may still be called: handles of the
// host's are given back.
var AtEnd []func()

// AfterInit has what is called as `init` ends, whose memory all instances begin with.
var AfterInit []func()

// Respond runs a function of an application, and RespondAll one of a batch, and gives where the result lies;
// Guard runs a function of a context, and gives what its error is. Lower makes words of a response,
// LowerTensors of tensors, which TensorsAt reads.
var Respond, RespondAll, Guard, Lower, LowerTensors, TensorsAt any

// AnswerTo makes of an error the response that it is to a client; of one that is for the log, none. Refusal
// makes one in the form of the host's errors.
var AnswerTo, Refusal any
