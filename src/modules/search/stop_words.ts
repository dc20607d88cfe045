// Words that questions are made of. They say little about the text that is wanted, so they are looked up only when a query has no others.

const ENGLISH =
  "a about above after again all am an and any are as at be been before being below between both but by can " +
  "cannot could did do does doing during each few for from further get gets got had has have having he her here hers him " +
  "his how i if in into is it its just let like may me might more most must my no nor not now of off on once one only or " +
  "other our out over own please same she should so some such than that the their them then there these they this those " +
  "through to too under until up us very was we were what when where which while who whose why will with would you " +
  "your s t d ll re ve m don didn doesn isn aren wasn";
const GERMAN =
  "aber als am an auch auf aus bei bin bis da damit das dass dein dem den denn der des die doch du durch ein " +
  "eine einem einen einer eines er es euer fur hat haben habe hier ich ihr im in ist ja kann kein keine mein mit nach nicht " +
  "noch nun nur ob oder ohne sein seine sich sie sind so uber um und uns unser vom von vor wann war waren warum was weil " +
  "wem wen wenn wer werden wie wieso wir wird wo woher wohin zu zum zur";
const FRENCH =
  "au aux avec ce ces cette comment dans de des du elle en est et etait eux il ils je la le les leur lui ma mais " +
  "me mes moi mon ne nos notre nous ou par pas pour pourquoi qu quand que quel quelle quels qui quoi sa se ses son sont sur " +
  "ta te tes toi ton tu un une vos votre vous";
const SPANISH =
  "al como con cual cuando cuanto de del desde donde el ella ellos en era es esta estan este esto fue ha hay la " +
  "las le les lo los mas mi muy no nos o para pero por porque que quien se ser si sin sobre son su sus te tu un una uno y ya";

/** Normalized, as `normalizeText` returns them. */
export const STOP_WORDS: ReadonlySet<string> = new Set([ENGLISH, GERMAN, FRENCH, SPANISH].join(" ").split(" "));
