/* flags: -C */
#define V1(p) p##0 = 1; p##1 = 1; p##2 = 1; p##3 = 1; p##4 = 1; p##5 = 1; p##6 = 1; p##7 = 1;
#define V2(p) V1(p##0) V1(p##1) V1(p##2) V1(p##3) V1(p##4) V1(p##5) V1(p##6) V1(p##7)
#define V3(p) V2(p##0) V2(p##1) V2(p##2) V2(p##3) V2(p##4) V2(p##5) V2(p##6) V2(p##7)
#define V4(p) V3(p##0) V3(p##1) V3(p##2) V3(p##3) V3(p##4) V3(p##5) V3(p##6) V3(p##7)
#define V5(p) V4(p##0) V4(p##1) V4(p##2) V4(p##3) V4(p##4) V4(p##5) V4(p##6) V4(p##7)
BEGIN
{
	V5(v)
	one_more = 1;
}
