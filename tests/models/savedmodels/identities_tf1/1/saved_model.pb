»
¤u
.
Identity

input"T
output"T"	
Ttype
C
Placeholder
output"dtype"
dtypetype"
shapeshape:"serve*2.21.02v2.21.0-rc1-5-ga481b10260d8“
_
boolPlaceholder*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0
*
shape:ÿÿÿÿÿÿÿÿÿ
`
uint8Placeholder*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
a
uint16Placeholder*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
a
uint32Placeholder*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
a
uint64Placeholder*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
_
int8Placeholder*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
`
int16Placeholder*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
`
int32Placeholder*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
`
int64Placeholder*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0	*
shape:ÿÿÿÿÿÿÿÿÿ
_
fp16Placeholder*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
_
bf16Placeholder*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
_
fp32Placeholder*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
_
fp64Placeholder*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
`
bytesPlaceholder*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ*
dtype0*
shape:ÿÿÿÿÿÿÿÿÿ
H
IdentityIdentitybool*
T0
*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
K

Identity_1Identityuint8*
T0*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
L

Identity_2Identityuint16*
T0*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
L

Identity_3Identityuint32*
T0*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
L

Identity_4Identityuint64*
T0*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
J

Identity_5Identityint8*
T0*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
K

Identity_6Identityint16*
T0*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
K

Identity_7Identityint32*
T0*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
K

Identity_8Identityint64*
T0	*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
J

Identity_9Identityfp16*
T0*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
K
Identity_10Identitybf16*
T0*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
K
Identity_11Identityfp32*
T0*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
K
Identity_12Identityfp64*
T0*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ
L
Identity_13Identitybytes*
T0*#
_output_shapes
:ÿÿÿÿÿÿÿÿÿ"ª*û
serving_defaultç
!
bf16
bf16:0ÿÿÿÿÿÿÿÿÿ
!
bool
bool:0
ÿÿÿÿÿÿÿÿÿ
#
bytes
bytes:0ÿÿÿÿÿÿÿÿÿ
!
fp16
fp16:0ÿÿÿÿÿÿÿÿÿ
!
fp32
fp32:0ÿÿÿÿÿÿÿÿÿ
!
fp64
fp64:0ÿÿÿÿÿÿÿÿÿ
#
int16
int16:0ÿÿÿÿÿÿÿÿÿ
#
int32
int32:0ÿÿÿÿÿÿÿÿÿ
#
int64
int64:0	ÿÿÿÿÿÿÿÿÿ
!
int8
int8:0ÿÿÿÿÿÿÿÿÿ
%
uint16
uint16:0ÿÿÿÿÿÿÿÿÿ
%
uint32
uint32:0ÿÿÿÿÿÿÿÿÿ
%
uint64
uint64:0ÿÿÿÿÿÿÿÿÿ
#
uint8
uint8:0ÿÿÿÿÿÿÿÿÿ(
bf16 
Identity_10:0ÿÿÿÿÿÿÿÿÿ%
bool

Identity:0
ÿÿÿÿÿÿÿÿÿ)
bytes 
Identity_13:0ÿÿÿÿÿÿÿÿÿ'
fp16
Identity_9:0ÿÿÿÿÿÿÿÿÿ(
fp32 
Identity_11:0ÿÿÿÿÿÿÿÿÿ(
fp64 
Identity_12:0ÿÿÿÿÿÿÿÿÿ(
int16
Identity_6:0ÿÿÿÿÿÿÿÿÿ(
int32
Identity_7:0ÿÿÿÿÿÿÿÿÿ(
int64
Identity_8:0	ÿÿÿÿÿÿÿÿÿ'
int8
Identity_5:0ÿÿÿÿÿÿÿÿÿ)
uint16
Identity_2:0ÿÿÿÿÿÿÿÿÿ)
uint32
Identity_3:0ÿÿÿÿÿÿÿÿÿ)
uint64
Identity_4:0ÿÿÿÿÿÿÿÿÿ(
uint8
Identity_1:0ÿÿÿÿÿÿÿÿÿtensorflow/serving/predict